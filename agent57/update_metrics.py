"""Metrics of an update: means over the trained rows of a batch, many of them per arm.

Nothing here changes the learning.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from agent57.config import Config
from agent57.ops.policy import epsilon_greedy
from agent57.ops.td import (
    mixed_values,
    mixture_size,
    of_played_arms,
    played_traces,
    trained_rows,
)
from agent57.types import Batch

# Metrics are means: sum and number, scalars or per arm [J]. Empty groups are not logged.
Sums = dict[str, tuple[Tensor, Tensor]]


def batch_sums(
    batch: Batch,
    online: Tensor,
    target: Tensor,
    policy: Tensor | None,
    td_error: Tensor,
    scale: Tensor,
    beta: Tensor,
    config: Config,
) -> Sums:
    """Sizes of values and errors, lead of the best action, traces, and the share of each arm.

    All inputs belong to the arms that played: values [V, T+1, B, A], the distilled policy
    [T, B, A], errors [L, T, B] and their usual sizes [L, J]. `target_difference` is the lag of
    the target networks.
    """
    trained = trained_rows(batch, config.sequence.burn_in)
    one_hot = F.one_hot(batch.arm, config.family.arms).float()  # [B, J]
    windows, rows = one_hot.sum(0), trained.sum(0).float() @ one_hot  # [J]

    def per_arm(values: Tensor) -> Tensor:
        """Sums [..., J] over the trained rows of values [..., T, B]."""
        return (values * trained).sum(-2) @ one_hot

    mixture = mixed_values(online[:, :-1], beta, config)
    best = mixture.topk(min(2, mixture.shape[-1])).values
    difference = ((online - target)[:, :-1].abs().mean(-1) * trained).sum((1, 2))  # [V]
    sums = {
        **_named("value", config.value_names, [of_all(value) for value in online]),
        **_named("td", config.learned_names, [(x, rows) for x in per_arm(td_error.abs())]),
        **_named("target_difference", config.value_names, [(x, rows.sum()) for x in difference]),
        "action_gap": (per_arm(best[..., 0] - best[..., -1]), rows),
        "batch_share": (windows, windows.sum().expand_as(windows)),
    }
    if config.learner.loss != "n_step":
        if policy is None:
            policy = epsilon_greedy(mixture, config.learner.target_epsilon)
        size = mixture_size(scale, batch, beta, config.learned_kind)
        trace = played_traces(mixture, policy, batch, config.learner, size)
        sums["trace"] = (per_arm(trace), rows)
    return sums


def scaled_sums(
    batch: Batch, counted: Tensor, priorities: Tensor, mixed: Tensor, config: Config
) -> Sums:
    """Metrics that need the scale of the errors: mixed errors [T, B], priorities [B]."""
    trained = trained_rows(batch, config.sequence.burn_in)
    sums = {"td/mean_abs": of_rows(mixed.abs(), trained), "priority/mean": of_all(priorities)}
    if config.learner.trust_region:
        dropped = of_played_arms(~counted, batch)
        sums["trust_region/dropped"] = of_rows(dropped, trained.expand_as(dropped))
    return sums


def churn_sums(
    batch: Batch,
    online: Tensor,
    online_after: Tensor,
    policy: Tensor | None,
    logits_after: Tensor | None,
    beta: Tensor,
    config: Config,
) -> Sums:
    """Changes of the greedy action by an update, in the trained rows of the arms that played."""
    trained = trained_rows(batch, config.sequence.burn_in)
    before, after = (
        mixed_values(value[:, :-1], beta, config).argmax(-1) for value in (online, online_after)
    )
    sums = {"churn/values": of_rows(before != after, trained)}
    if policy is not None and logits_after is not None:
        is_changed = policy.argmax(-1) != logits_after[:-1].argmax(-1)
        sums["churn/policy"] = of_rows(is_changed, trained)
    return sums


def update_metrics(
    losses: dict[str, Tensor],
    norms: dict[str, Tensor],
    priorities: Tensor,
    sums: Sums,
    clip_norm: float,
    gather: Callable[[Tensor], Tensor],
) -> dict[str, float]:
    """Scalars to log, of the whole batch."""
    one = priorities.new_ones(())
    sums = {f"loss/{name}": (loss.detach(), one) for name, loss in losses.items()} | sums
    found = means(sums, gather)
    largest = gather(priorities.max()).amax()
    found["priority/max"], *values = torch.stack([largest, *norms.values()]).tolist()
    for name, norm in zip(norms, values, strict=True):
        found[f"gradient_norm/{name}"] = norm
        found[f"clipped/{name}"] = float(norm > clip_norm)
    return found


def of_all(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sum and number of all values."""
    return values.sum(), values.new_tensor(values.numel())


def of_rows(values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Sum and number of the values of the rows in a mask."""
    return (values * rows).sum(), rows.sum()


def means(sums: Sums, gather: Callable[[Tensor], Tensor]) -> dict[str, float]:
    """The means over the shares of all learners, which `gather` brings together."""
    names = [name for key, (total, _) in sums.items() for name in _names(key, total)]
    pairs = [torch.stack(pair).reshape(2, -1).float() for pair in sums.values()]
    sum_and_number = gather(torch.cat(pairs, dim=1)).sum(0)  # [2, metrics]
    found = zip(names, *sum_and_number.tolist(), strict=True)
    return {name: total / number for name, total, number in found if number}


def _named(prefix: str, names: Sequence[str], sums: list[tuple[Tensor, Tensor]]) -> Sums:
    return {f"{prefix}/{name}": pair for name, pair in zip(names, sums, strict=True)}


def _names(name: str, values: Tensor) -> list[str]:
    """The name of a scalar, or one name per arm."""
    return [f"{name}/{arm}" for arm in range(len(values))] if values.dim() else [name]
