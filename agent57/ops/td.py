"""TD errors of the value networks, their scale per arm, and the priorities they give windows.

With separate networks, Q^e learns from the extrinsic and Q^i from the intrinsic reward, each from
its own values. Both learn under the policy of their mixture Q^e + beta_j Q^i, with the discount
gamma_j of the arm that played. A joint network learns from r^e + beta_j r^i.

Actor and learner compute priorities by the same two calls: `td_errors`, then `window_priorities`.
"""

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from agent57.config import Config, LearnerConfig
from agent57.ops.meme import (
    distillation_loss,
    soft_watkins_traces,
    trust_region,
)
from agent57.ops.policy import epsilon_greedy, mix_values
from agent57.ops.retrace import (
    Rows,
    expected_returns,
    n_step_targets,
    played_values,
    retrace_targets,
    retrace_traces,
)
from agent57.ops.squash import at_least_float32, squash, unsquash
from agent57.types import Batch, Windows

ValueKind = Literal["separate", "shared", "joint"]

MIN_SCALE = 0.01  # smallest size that errors are divided by, MEME
RATE = 0.01  # at which the running mean squares follow the batches


def value_rewards(
    extrinsic: Float[Tensor, "T B"],
    intrinsic: Float[Tensor, "T B"],
    beta: Float[Tensor, "B"],
    kind: ValueKind,
) -> Float[Tensor, "V T B"]:
    """The reward each value learns from: r^e and r^i, or r^e + beta_j r^i."""
    if kind == "joint":
        return (extrinsic + beta * intrinsic)[None]
    return torch.stack([extrinsic, intrinsic])


def value_weights(beta: Float[Tensor, "B"], kind: ValueKind) -> Float[Tensor, "V B"]:
    """The weight of each value in the mixture: 1 for Q^e and beta_j for Q^i, or 1 for a joint Q."""
    if kind == "joint":
        return torch.ones_like(beta)[None]
    return torch.stack([torch.ones_like(beta), beta])


def learned_values(
    value: Float[Tensor, "V rows B A"], beta: Float[Tensor, "B"], config: Config
) -> Float[Tensor, "L rows B A"]:
    """The values that are learned: Q^e and Q^i each, or their mixture alone (MEME)."""
    return value if config.learner.value_loss == "each" else mixed_values(value, beta, config)[None]


def mixed_values(
    value: Float[Tensor, "V *#rows B A"], beta: Float[Tensor, "B"], config: Config
) -> Float[Tensor, "*#rows B A"]:
    """The mixture of the values that arms of these betas act on."""
    weight = value_weights(beta, config.network.values)
    weight = weight.view(len(weight), *(1,) * (value.dim() - 3), -1)
    return mix_values(value, weight, config.learner.mixture, config.learner.squash_epsilon)


def split_outputs(
    outputs: Float[Tensor, "O *rows A"], config: Config
) -> tuple[Float[Tensor, "V *rows A"], Float[Tensor, "*rows A"] | None]:
    """The values, and the logits of the policy if it is distilled."""
    if config.learner.policy == "values":
        return outputs, None
    return outputs[:-1], outputs[-1]


def target_policy(
    logits: Float[Tensor, "*rows A"] | None, config: LearnerConfig
) -> Float[Tensor, "*rows A"] | None:
    """The distilled policy as it acts; None if the values act."""
    if logits is None:
        return None
    return (at_least_float32(logits.detach()) / config.policy_temperature).softmax(-1)


def policy_losses(
    logits: Float[Tensor, "rows B A"] | None,
    target_logits: Float[Tensor, "rows B A"] | None,
    value: Float[Tensor, "V rows B A"],
    beta: Float[Tensor, "B"],
    config: Config,
) -> Float[Tensor, "T B"] | None:
    """The loss of the distilled policy in each row but the last; None if the values act."""
    if logits is None or target_logits is None:
        return None
    wanted = epsilon_greedy(mixed_values(value, beta, config), config.learner.policy_epsilon)
    rows = (logits[:-1], target_logits[:-1], wanted[:-1])
    return distillation_loss(*rows, config.learner.policy_kl)


def td_errors(
    online: Float[Tensor, "V rows B A"],
    target: Float[Tensor, "V rows B A"],
    windows: Windows,
    *,
    beta: Float[Tensor, "B"],
    gamma: Float[Tensor, "B"],
    loss: LearnerConfig,
    values: ValueKind,
    scale: Float[Tensor, "V J"],
    policy: Float[Tensor, "rows B A"] | None = None,
) -> Float[Tensor, "V T B"]:
    """The TD errors h(G_v[t]) - Q_v[t, a[t]] of each value v; 0 in padding.

    `online` and `target` are the outputs of the networks, T+1 rows, in the space of h. The returns
    G_v are computed from the target networks' h^-1(Q_v) and the value's own reward (the paper,
    appendix C). Retrace, Peng's and soft Watkins Q(lambda) follow `policy`, by default the
    epsilon-greedy policy of the online mixture. N-step double Q-learning takes the best action of
    the online mixture. `scale` is the usual size of the errors (`td_scale`), which soft Watkins
    Q(lambda) may measure its tolerance in. The gradient flows through `online` alone.
    """
    online = at_least_float32(online)
    is_squashed = loss.transform == "h"
    value = unsquash(target, loss.squash_epsilon) if is_squashed else at_least_float32(target)
    weight = value_weights(beta, values)[:, None]
    mixture = mix_values(online.detach(), weight, loss.mixture, loss.squash_epsilon)
    if policy is None:
        policy = epsilon_greedy(mixture, loss.target_epsilon)
    reward = value_rewards(windows.extrinsic, windows.intrinsic, beta, values).transpose(0, 1)
    rows = Rows(reward, (gamma * windows.discount)[:, None], windows.mask[:, None])
    size = mixture_size(scale, windows, beta, values)
    returns = _returns(rows, value.transpose(0, 1), mixture, policy, windows, loss, size)
    returns = returns.transpose(0, 1)
    if is_squashed:
        returns = squash(returns, loss.squash_epsilon)
    played = played_values(windows.action.expand(len(online), -1, -1), online[:, :-1])
    return (returns - played).masked_fill(~windows.mask, 0.0)


def _returns(
    rows: Rows,
    value: Float[Tensor, "rows V B A"],
    mixture: Float[Tensor, "rows B A"],
    policy: Float[Tensor, "rows B A"],
    windows: Windows,
    loss: LearnerConfig,
    size: Float[Tensor, "B"],
) -> Float[Tensor, "T V B"]:
    """The returns of every value, by the chosen estimator; the columns of `rows` are [V, B]."""
    if loss.loss == "n_step":
        best = mixture.argmax(-1)[:, None].expand(value.shape[:-1])
        return n_step_targets(rows, played_values(best, value), loss.n_step)
    if loss.loss in ("peng", "soft_watkins"):
        trace = played_traces(mixture[:-1], policy[:-1], windows, loss, size)
        return expected_returns(rows, (policy[:, None] * value).sum(-1), trace[:, None])
    action, action_prob = (
        x[:, None].expand_as(rows.reward) for x in (windows.action, windows.action_prob)
    )
    policy = policy[:, None].expand_as(value)
    return retrace_targets(rows, value, policy, action, action_prob, loss.trace_decay)


def played_traces(
    mixture: Float[Tensor, "T B A"],
    policy: Float[Tensor, "T B A"],
    windows: Windows,
    loss: LearnerConfig,
    size: Float[Tensor, "B"],
) -> Float[Tensor, "T B"]:
    """The trace of each row's action, by Retrace, Peng's Q(lambda) or soft Watkins Q(lambda).

    `size` is the usual size of the errors of the mixture.
    """
    if loss.loss == "peng":
        return torch.full_like(windows.action_prob, loss.trace_decay)
    if loss.loss == "soft_watkins":
        unit = size[:, None] if loss.watkins_unit == "error" else None
        return soft_watkins_traces(
            mixture, policy, windows.action, loss.trace_decay, loss.watkins_tolerance, unit
        )
    return retrace_traces(policy, windows.action, windows.action_prob, loss.trace_decay)


def value_losses(
    td_error: Float[Tensor, "V T B"],
    ahead: Float[Tensor, "V T B"],
    scale: Float[Tensor, "V J"],
    windows: Windows,
    trained: Bool[Tensor, "T B"],
    weight: Float[Tensor, "B"],
    config: LearnerConfig,
) -> tuple[Float[Tensor, "V"], Bool[Tensor, "V T B"]]:
    """The loss of each value, half its squared errors, and the rows that count in it."""
    of_arm, counted = scale[:, None, windows.arm], trained.expand_as(td_error)
    if config.trust_region:
        is_inside = trust_region(ahead, td_error.detach(), of_arm, config.trust_region)
        counted = counted & is_inside
    if config.td_scale == "both":
        td_error = td_error / of_arm
    return mean_loss(0.5 * td_error.square() * counted, trained, weight, config), counted


def mean_loss(
    row_losses: Float[Tensor, "*V T B"],
    trained: Bool[Tensor, "T B"],
    weight: Float[Tensor, "B"],
    config: LearnerConfig,
) -> Float[Tensor, "*V"]:
    """The weighted mean over windows of losses that are summed (or averaged) over time."""
    per_window = row_losses.sum(-2)
    if config.reduction == "mean":
        per_window = per_window / trained.sum(0).clamp(min=1)
    return (per_window * weight).mean(-1)


def trained_rows(windows: Windows, burn_in: int) -> Bool[Tensor, "T B"]:
    """Rows that count in loss and priority: valid, and after the burn-in.

    A window at the start of its episode needs no burn-in: the zero state is exact there.
    """
    row = torch.arange(len(windows.mask), device=windows.mask.device)[:, None]
    return windows.mask & ((row >= burn_in) | (windows.start == 0))


def of_played_arms(columns: Shaped[Tensor, "K rows N *rest"], batch: Batch) -> Tensor:
    """The columns [K, rows, B, ...] of the arms that played, out of all N that were learned."""
    num_windows = len(batch.arm)
    if columns.shape[2] == num_windows:
        return columns
    each = torch.arange(num_windows, device=columns.device)
    return columns.unflatten(2, (num_windows, -1))[:, :, each, batch.arm]


def window_priorities(
    td_error: Float[Tensor, "V T B"],
    scale: Float[Tensor, "V J"],
    windows: Windows,
    beta: Float[Tensor, "B"],
    config: Config,
) -> tuple[Float[Tensor, "B"], Float[Tensor, "T B"]]:
    """Priorities of windows, and the mixed errors of their steps.

    The mixed error is sum_v w_v delta_v; `learner.td_scale` divides each delta_v by the size
    `scale` of its network and arm first.
    """
    if config.learner.td_scale != "none":
        td_error = td_error / scale[:, None, windows.arm]
    mixed = mixed_td_error(td_error, value_weights(beta, config.learned_kind))
    trained = trained_rows(windows, config.sequence.burn_in)
    return sequence_priority(mixed, trained, config.replay.priority_mix), mixed


def mixed_td_error(
    td_error: Float[Tensor, "V T B"], weight: Float[Tensor, "V B"]
) -> Float[Tensor, "T B"]:
    """The error of the identity mixture, sum_v w_v delta_v."""
    return (weight[:, None] * td_error).sum(0)


def sequence_priority(
    td_error: Float[Tensor, "T B"], mask: Bool[Tensor, "T B"], mix: float
) -> Float[Tensor, "B"]:
    """The priority mix max|delta| + (1 - mix) mean|delta| of each window (R2D2).

    Only rows of the mask count; a window without any has the priority 0.
    """
    size = td_error.abs().masked_fill(~mask, 0.0)
    mean = size.sum(0) / mask.sum(0).clamp(min=1)
    return mix * size.amax(0) + (1 - mix) * mean


def importance_weights(probability: Float[Tensor, "B"], exponent: float) -> Float[Tensor, "B"]:
    """Importance weights p^-exponent, divided by the largest in the batch (Schaul et al., 2016).

    The number of windows N in their formula, (N p)^-exponent, cancels. The paper's exponent is 0,
    which gives ones.
    """
    weight = probability**-exponent
    return (weight / weight.amax()).float()


def summed_squares(
    td_error: Float[Tensor, "V T B"],
    trained: Bool[Tensor, "T B"],
    arm: Int[Tensor, "B"],
    num_arms: int,
) -> Float[Tensor, "rows J"]:
    """Sum the squared errors of each network over a batch, per arm; the last row counts them."""
    squares = (td_error.square() * trained).sum(1)  # [V, B]
    per_window = torch.cat([squares, trained.sum(0, keepdim=True).to(squares.dtype)])
    return per_window.new_zeros(len(per_window), num_arms).index_add(1, arm, per_window)


def batch_scale(summed: Float[Tensor, "rows J"]) -> Float[Tensor, "V J"]:
    """RMS of a batch's errors per value and arm, from `summed_squares`; 0 for absent arms."""
    return (summed[:-1] / summed[-1].clamp(min=1)).sqrt()


def follow(running: Float[Tensor, "rows J"], summed: Float[Tensor, "rows J"]) -> None:
    """Move the running mean squares towards the mean squares of a batch; absent arms stay.

    The means begin at 0. The last row holds the weight of the batches seen so far, which rises
    from 0 to 1; `td_scale` divides by it.
    """
    number = summed[-1]
    batch = summed / number.clamp(min=1)
    running.lerp_(torch.where(number > 0, batch, running), RATE)


def td_scale(
    running: Float[Tensor, "rows J"], batch: Float[Tensor, "rows J"] | None = None
) -> Float[Tensor, "V J"]:
    """Moving RMS of the errors per network and arm; unseen arms use the mean over all arms.

    An option after MEME (Kapturowski et al., 2022). Arms differ in beta_j and gamma_j, so the sizes
    of their errors may differ by orders of magnitude, and arms with large errors would fill every
    batch. The scale is 1 before the first batch. The batch at hand is not in it,
    unless its `summed_squares` are given: then its own errors may enlarge the scale.
    """
    squares, weight = running[:-1], running[-1]
    of_all = squares.sum(1, keepdim=True) / weight.sum()
    mean_squares = torch.where(weight > 0, squares / weight, of_all)
    scale = torch.where(weight.sum() > 0, mean_squares, 1.0).sqrt().clamp(min=MIN_SCALE)
    return scale if batch is None else torch.maximum(scale, batch_scale(batch))


def mixture_size(
    scale: Float[Tensor, "V J"], windows: Windows, beta: Float[Tensor, "B"], values: ValueKind
) -> Float[Tensor, "B"]:
    """The usual size of the errors of each window's mixture, sum_v w_v sigma_v."""
    return (value_weights(beta, values) * scale[:, windows.arm]).sum(0)


def fresh_squares(config: Config) -> Float[Tensor, "rows J"]:
    """The running mean squares of a new run."""
    num_learned = 1 if config.learned_kind == "joint" else 2
    return torch.zeros(num_learned + 1, config.family.arms)


def saved_squares(
    state: dict[str, Any], networks: dict[str, Any], fresh: Float[Tensor, "rows J"]
) -> Float[Tensor, "rows J"]:
    """The running mean squares in a saved state, in the shape and on the device of `fresh`.

    Older states keep them among the weights of the networks, or not at all. They may lack the row
    of weights, which counts as 1.
    """
    squares = state.get("td_squares", networks.get("td_squares", torch.zeros_like(fresh)))
    if len(squares) < len(fresh):
        squares = torch.cat([squares, torch.ones_like(squares[:1])])
    return squares.to(fresh).clone()
