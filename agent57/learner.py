"""One update from one batch of windows.

- Q^e and Q^i by transformed Retrace, each on its own reward, under one shared policy: the
  epsilon-greedy one of their online mixture (or n-step double Q for R2D2, or parts of MEME)
- one Adam and one norm clip per network; target networks copied every `target_period` updates
- inverse dynamics and RND on the last valid steps of each window
- new priorities from delta^e + beta_j delta^i
- as one of several learners, on a share of the batch: the same result as one on the whole of it

An update has two stages: `_forward` runs the networks and finds the errors (it may be compiled),
`_value_losses` weighs the errors once all learners agree on their scale.
"""

import copy
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agent57.allocator import keep_freed_memory
from agent57.compilation import compiled
from agent57.config import Config
from agent57.data_parallel import LoneLearner
from agent57.nets.networks import Networks
from agent57.nets.standard import moments, pooled
from agent57.ops.cross import cross_arms
from agent57.ops.family import betas, gammas
from agent57.ops.policy import distillation_loss, epsilon_greedy, mix_values
from agent57.ops.retrace import played_values
from agent57.ops.td import (
    batch_scale,
    follow,
    fresh_squares,
    importance_weights,
    learned_values,
    played_traces,
    saved_squares,
    split_outputs,
    summed_squares,
    target_policy,
    td_errors,
    td_scale,
    trained_rows,
    trust_region,
    value_weights,
    window_priorities,
)
from agent57.player import Weights
from agent57.precision import settle_precision
from agent57.types import WINDOW_AXIS, Batch, Windows

CHURN_PERIOD = 100  # updates between measurements of the churn of greedy actions
NOVELTY = ("inverse_dynamics", "rnd")  # the networks that learn what is new

# Metrics are means: sum and number, scalars or per arm [J]. Empty groups are not logged.
Sums = dict[str, tuple[Tensor, Tensor]]


class NonFiniteUpdate(FloatingPointError):
    """A loss or a gradient that is not a finite number; the weights were left as they were."""

    def __init__(self, name: str, batch: Batch) -> None:
        super().__init__(f"{name} is not finite")
        self.name = name
        self.batch = batch

    def __reduce__(self) -> tuple[type[Self], tuple[str, Batch]]:
        """Pickle as what it is made of."""
        return type(self), (self.name, self.batch)


class Forward(NamedTuple):
    """The networks' results on a batch; N columns are B windows, or B x J with every arm."""

    online: Tensor  # [V, T+1, B, A], of the played arms
    target: Tensor  # [V, T+1, B, A], of the played arms
    td: Tensor  # [L, T, N], with gradient
    ahead: Tensor  # [L, T, N], online less target value of the played actions
    policy_loss: Tensor | None  # [T, N], with gradient; see `ops.policy.distillation_loss`
    policy: Tensor | None  # [T, B, A], distilled, of the played arms
    squares: Tensor  # [L+1, J], see `ops.td.summed_squares`
    novelty_losses: dict[str, Tensor]
    recognised: tuple[Tensor, Tensor] | None  # actions, and of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The outcome of an update."""

    priorities: Tensor  # [B], raw
    metrics: dict[str, float]


class Learner:
    """The online and target networks and their optimisers.

    In a `group` of several learners, all start with the same weights, load the same state, and
    take their shares of the windows of each batch at the same time. Losses, gradients and metrics
    are then those of the whole batch; priorities are those of the share.
    """

    def __init__(
        self,
        config: Config,
        networks: Networks,
        device: torch.device,
        group: LoneLearner | None = None,
    ) -> None:
        keep_freed_memory()
        self._config = config
        self._precision = settle_precision(config, device).learner.precision
        self._device = device
        self._group = group or LoneLearner()
        self.networks = networks.to(device).train()
        self._target = copy.deepcopy(networks.value).requires_grad_(False).to(device)
        self._beta = torch.from_numpy(betas(config.family)).float().to(device)
        self._gamma = torch.from_numpy(gammas(config.family)).float().to(device)
        self._trained = self._trained_modules()
        self._optimisers = {
            name: self._make_optimiser(name, module) for name, module in self._trained.items()
        }
        is_joint = networks.num_values == 1
        self._value_names = ("joint",) if is_joint else ("extrinsic", "intrinsic")
        is_combined = config.learner.value_loss == "combined"
        self._loss_names = ("combined",) if is_combined else self._value_names
        # Running mean squares of the TD errors of each arm, see `ops.td.follow`.
        self._td_squares = fresh_squares(config).to(device)
        self._compiled_forward = compiled(self._forward, config.learner.compile, device)
        self.num_updates = 0

    def _trained_modules(self) -> dict[str, nn.Module]:
        """Every network with an optimiser of its own."""
        kind = self._config.network.values
        names = ("extrinsic", "intrinsic") if kind == "separate" else (kind,)
        modules: dict[str, nn.Module] = dict(zip(names, self.networks.value.nets, strict=True))
        if self.networks.value.policy is not None:
            modules["policy"] = self.networks.value.policy
        if self.networks.embedding is not None and self.networks.rnd is not None:
            modules["inverse_dynamics"] = self.networks.embedding
            modules["rnd"] = self.networks.rnd.predictor
        return modules

    def _make_optimiser(self, name: str, module: nn.Module) -> torch.optim.Optimizer:
        """Adam, with L2 in the loss of inverse dynamics and decoupled decay of the values."""
        config = self._config.learner
        is_novelty = name in NOVELTY
        is_decayed = config.weight_decay > 0 and not is_novelty
        kind = torch.optim.AdamW if is_decayed else torch.optim.Adam
        l2 = config.inverse_l2 if name == "inverse_dynamics" else 0.0
        return kind(
            module.parameters(),
            lr=config.novelty_learning_rate if is_novelty else config.learning_rate,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_epsilon,
            weight_decay=config.weight_decay if is_decayed else l2,
            fused=True,
        )

    def weights(self) -> tuple[Weights, int]:
        """The online networks and the scale of their errors, as actors pull them; their version."""
        return {**self.networks.state_dict(), "td_squares": self._td_squares}, self.num_updates

    def update(self, batch: Batch) -> Update:
        """One step of every optimiser; raises `NonFiniteUpdate` before any weight is touched."""
        batch = self._crossed(batch.to(self._device))
        windows = self._learned_windows(batch)
        found = self._compiled_forward(batch, windows)
        squares = self._group.gather(found.squares).sum(0)
        losses, priorities, sums = self._value_losses(batch, windows, found, squares)
        losses |= found.novelty_losses
        share = self._shares(batch)
        losses = {name: loss * share[name] for name, loss in losses.items()}
        for optimiser in self._optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()
        parameters = (p for module in self._trained.values() for p in module.parameters())
        self._group.average(p.grad for p in parameters if p.grad is not None)
        norms = {name: self._clip(module) for name, module in self._trained.items()}
        metrics = self._metrics(losses, norms, priorities, sums)
        for name, value in metrics.items():
            if name.startswith(("loss/", "gradient_norm/")) and not math.isfinite(value):
                raise NonFiniteUpdate(name, batch.map(lambda x: x.cpu()))
        for optimiser in self._optimisers.values():
            optimiser.step()
        if (self.num_updates + 1) % CHURN_PERIOD == 0:
            metrics |= self._means(self._churn(batch, found))
        follow(self._td_squares, squares)
        if self.networks.standard is not None:
            seen = moments(batch.observation[:-1].float(), batch.mask)
            self.networks.standard.follow(pooled(self._group.gather(seen)))
        self.num_updates += 1
        self.networks.follow_average()
        if self.num_updates % self._config.learner.target_period == 0:
            self._target.load_state_dict(self.networks.value.state_dict())
        return Update(priorities=priorities.cpu(), metrics=metrics)

    def _shares(self, batch: Batch) -> dict[str, Tensor]:
        """The factor of each loss of this learner's windows in the loss of the whole batch.

        Value losses are means over windows, weighted relative to the batch's largest weight, and
        novelty losses are means over the steps that exist. Scaled by its share, a loss is one of D
        terms whose mean is the loss of one learner. The shares of a lone learner are 1.
        """
        self._group.check_in_step(self.num_updates)
        num_steps = batch.mask.sum(0).clamp(max=self._config.learner.novelty_steps).sum()
        largest = batch.probability.amin() ** -self._config.replay.importance_exponent
        own = torch.stack([largest.new_tensor(len(batch.arm)), num_steps, largest])  # float64
        every = self._group.gather(own)  # [D, 3]
        windows, steps = (own / every.mean(0))[:2]
        value = (windows * largest / every[:, 2].amax()).float()
        of_values = dict.fromkeys((*self._loss_names, "policy"), value)
        return of_values | dict.fromkeys(NOVELTY, steps.float())

    def _clip(self, module: nn.Module) -> Tensor:
        """Clip the gradient of one network; return its norm before the clip."""
        return nn.utils.clip_grad_norm_(module.parameters(), self._config.learner.clip_norm)

    def _metrics(
        self,
        losses: dict[str, Tensor],
        norms: dict[str, Tensor],
        priorities: Tensor,
        sums: Sums,
    ) -> dict[str, float]:
        """Scalars to log, of the whole batch."""
        one = priorities.new_ones(())
        sums = {f"loss/{name}": (loss.detach(), one) for name, loss in losses.items()} | sums
        means = self._means(sums)
        largest = self._group.gather(priorities.max()).amax()
        largest_priority, *values = torch.stack([largest, *norms.values()]).tolist()
        gradients = dict(zip(norms, values, strict=True))
        clip = self._config.learner.clip_norm
        return {
            **means,
            **{f"gradient_norm/{name}": norm for name, norm in gradients.items()},
            **{f"clipped/{name}": float(norm > clip) for name, norm in gradients.items()},
            "priority/max": largest_priority,
        }

    def _crossed(self, batch: Batch) -> Batch:
        """The batch, some of its windows with another arm if arms enter the core.

        See `ops.cross`; where arms enter the heads, `_learned_windows` has all of them.
        """
        eta = self._config.learner.cross_mixture
        if eta == 1 or self._config.network.arm_input == "head":
            return batch
        arm = cross_arms(batch.arm, batch.key, self.num_updates, eta, len(self._beta))
        return replace(batch, arm=arm)

    def _means(self, sums: Sums) -> dict[str, float]:
        """The means over the shares of all learners."""
        names = [name for key, (total, _) in sums.items() for name in _names(key, total)]
        pairs = [torch.stack(pair).reshape(2, -1).float() for pair in sums.values()]
        sum_and_number = self._group.gather(torch.cat(pairs, dim=1)).sum(0)  # [2, metrics]
        means = zip(names, *sum_and_number.tolist(), strict=True)
        return {name: total / number for name, total, number in means if number}

    def _learned_windows(self, batch: Batch) -> Windows:
        """The batch, or each of its windows once for every arm if arms enter the heads (MEME)."""
        if self._config.learner.cross_mixture == 1 or self._config.network.arm_input == "core":
            return batch
        arms = torch.arange(len(self._beta), device=self._device)
        repeated = {
            name: getattr(batch, name).repeat_interleave(len(arms), dim=WINDOW_AXIS.get(name, 1))
            for name in Windows.__dataclass_fields__
        }
        return Windows(**repeated | {"arm": arms.repeat(len(batch.arm))})

    def _forward(self, batch: Batch, windows: Windows) -> Forward:
        """Run the networks on a batch, and find the errors of its windows as they are learned."""
        config = self._config
        prepared = self.networks.prepare(batch.observation)
        with torch.autocast(
            self._device.type, torch.bfloat16, enabled=self._precision == "bfloat16"
        ):
            online = self._unroll(self.networks.value, batch, prepared, windows.arm).float()
            with torch.no_grad():
                target = self._unroll(self._target, batch, prepared, windows.arm).float()
        beta, gamma = self._beta[windows.arm], self._gamma[windows.arm]
        online, logits = split_outputs(online, config)
        target, target_logits = split_outputs(target, config)
        policy = target_policy(logits, config.learner)
        learned, behind = (learned_values(value, beta, config) for value in (online, target))
        td = td_errors(
            learned,
            learned.detach() if config.learner.trust_region else behind,
            windows,
            beta=beta,
            gamma=gamma,
            loss=config.learner,
            values=config.learned_kind,
            policy=policy,
        )
        trained = trained_rows(windows, config.sequence.burn_in)
        action = windows.action.expand(len(td), -1, -1)
        ahead = played_values(action, (learned.detach() - behind)[:, :-1])
        novelty_losses, recognised = self._novelty_losses(batch, prepared)
        return Forward(
            online=self._of_played_arm(online.detach(), batch),
            target=self._of_played_arm(target, batch),
            td=td,
            ahead=ahead,
            policy_loss=self._policy_loss(logits, target_logits, online.detach(), beta),
            policy=None if policy is None else self._of_played_arm(policy[None, :-1], batch)[0],
            squares=summed_squares(td.detach(), trained, windows.arm, len(self._beta)),
            novelty_losses=novelty_losses,
            recognised=recognised,
        )

    def _policy_loss(
        self, logits: Tensor | None, target_logits: Tensor | None, value: Tensor, beta: Tensor
    ) -> Tensor | None:
        """Loss [T, N] of the distilled policy; None without one."""
        if logits is None or target_logits is None:
            return None
        config = self._config.learner
        weight = value_weights(beta, self._config.network.values)[:, None]
        mixture = mix_values(value, weight, config.mixture, config.squash_epsilon)
        return distillation_loss(
            logits[:-1], target_logits[:-1], mixture[:-1], config.policy_epsilon, config.policy_kl
        )

    def _of_played_arm(self, columns: Tensor, batch: Batch) -> Tensor:
        """The columns [., ., B, ...] of the arms that played, out of [., ., N, ...]."""
        num_windows = len(batch.arm)
        if columns.shape[2] == num_windows:
            return columns
        each = torch.arange(num_windows, device=self._device)
        return columns.unflatten(2, (num_windows, -1))[:, :, each, batch.arm]

    def _value_losses(
        self, batch: Batch, windows: Windows, found: Forward, squares: Tensor
    ) -> tuple[dict[str, Tensor], Tensor, Sums]:
        """Losses of the values, priorities [B], and what to log; `squares` of the whole batch."""
        config = self._config
        scale = td_scale(self._td_squares)
        if config.learner.td_scale_batch:
            scale = torch.maximum(scale, batch_scale(squares))
        of_arm = scale[:, None, windows.arm]
        trained = trained_rows(windows, config.sequence.burn_in)
        counted = trained.expand_as(found.td)
        if config.learner.trust_region:
            inside = trust_region(
                found.ahead, found.td.detach(), of_arm, config.learner.trust_region
            )
            counted = counted & inside
        in_loss = found.td / of_arm if config.learner.td_scale == "both" else found.td
        per_window = self._over_time(0.5 * in_loss.square() * counted, trained)  # [L, N]
        weight = self._window_weights(batch, windows)
        losses = dict(zip(self._loss_names, (per_window * weight).mean(-1), strict=True))
        if found.policy_loss is not None:
            per_window = self._over_time(found.policy_loss * trained, trained)
            losses["policy"] = (per_window * weight).mean(-1)

        td = self._of_played_arm(found.td.detach(), batch)
        beta = self._beta[batch.arm]
        priorities, mixed = window_priorities(td, scale, batch, beta, config)
        trained = trained_rows(batch, config.sequence.burn_in)
        values = zip(self._value_names, found.online, strict=True)
        sums = {
            **{f"value/{name}": _of_all(value) for name, value in values},
            "td/mean_abs": ((mixed.abs() * trained).sum(), trained.sum()),
            "priority/mean": _of_all(priorities),
            **self._diagnostics(batch, found, td, trained),
        }
        if config.learner.trust_region:
            dropped = self._of_played_arm(~counted, batch) & trained
            sums["trust_region/dropped"] = (dropped.sum(), trained.sum() * len(td))
        if found.recognised is not None:
            sums["inverse_dynamics/accuracy"] = found.recognised
        return losses, priorities, sums

    def _window_weights(self, batch: Batch, windows: Windows) -> Tensor:
        """The weight of each column [N] in the mean: importance, times the share of its arm."""
        exponent = self._config.replay.importance_exponent
        weight = importance_weights(batch.probability, exponent).float()
        if windows is batch:
            return weight
        eta, num_arms = self._config.learner.cross_mixture, len(self._beta)
        played = batch.arm.repeat_interleave(num_arms) == windows.arm
        share = eta * played + (1 - eta) / num_arms
        return num_arms * share * weight.repeat_interleave(num_arms)

    def _diagnostics(self, batch: Batch, found: Forward, td: Tensor, trained: Tensor) -> Sums:
        """Means over the trained rows, per arm: size of TD errors, lead of the best action, traces.

        Also each arm's share of the windows, and how far the target networks are behind.
        """
        config, online, target = self._config, found.online, found.target
        mixture = self._mixture(online[:, :-1], batch)
        best = mixture.topk(min(2, mixture.shape[-1])).values
        lead = ((best[..., 0] - best[..., -1]) * trained).sum(0)  # [B]
        behind = ((online - target)[:, :-1].abs().mean(-1) * trained).sum((1, 2))  # [V]
        one_hot = F.one_hot(batch.arm, len(self._beta)).float()  # [B, J]
        size = (td.abs() * trained).sum(1) @ one_hot  # [V, J]
        windows, rows = one_hot.sum(0), trained.sum(0).float() @ one_hot  # [J]
        traces: Sums = {}
        if config.learner.loss != "n_step":
            policy = found.policy
            if policy is None:
                policy = epsilon_greedy(mixture, config.learner.target_epsilon)
            trace = played_traces(mixture, policy, batch, config.learner)
            traces["trace"] = ((trace * trained).sum(0) @ one_hot, rows)
        return {
            **traces,
            **{
                f"td/{name}": (total, rows)
                for name, total in zip(self._loss_names, size, strict=True)
            },
            **{
                f"target_difference/{name}": (total, rows.sum())
                for name, total in zip(self._value_names, behind, strict=True)
            },
            "action_gap": (lead @ one_hot, rows),
            "batch_share": (windows, windows.sum().expand_as(windows)),
        }

    def _mixture(self, value: Tensor, batch: Batch) -> Tensor:
        """The values that the arms of the batch act on."""
        config = self._config.learner
        weight = value_weights(self._beta[batch.arm], self._config.network.values)[:, None]
        return mix_values(value, weight, config.mixture, config.squash_epsilon)

    @torch.no_grad()
    def _churn(self, batch: Batch, found: Forward) -> Sums:
        """Share of the trained rows whose greedy action this update has changed."""
        prepared = self.networks.prepare(batch.observation)
        outputs = self._unroll(self.networks.value, batch, prepared, batch.arm).float()
        value, logits = split_outputs(outputs, self._config)
        trained = trained_rows(batch, self._config.sequence.burn_in)
        pairs = {"churn/values": [self._mixture(v[:, :-1], batch) for v in (found.online, value)]}
        if found.policy is not None and logits is not None:
            pairs["churn/policy"] = [found.policy, logits[:-1]]
        return {
            name: (((a.argmax(-1) != b.argmax(-1)) & trained).sum(), trained.sum())
            for name, (a, b) in pairs.items()
        }

    def _unroll(self, nets: nn.Module, batch: Batch, prepared: Tensor, arm: Tensor) -> Tensor:
        """Values [V, T+1, N, A] of a batch, for N / B arms of each window.

        No gradient flows from the trace into the burn-in.
        """
        burn_in, num_windows = self._config.sequence.burn_in, len(batch.arm)
        arms = arm if len(arm) == num_windows else arm.view(num_windows, -1)
        state, values = batch.state, []
        for rows in (slice(0, burn_in), slice(burn_in, None)):
            if rows == slice(0, 0):
                continue
            value, state = nets(
                prepared[rows],
                batch.previous_action[rows],
                batch.previous_extrinsic[rows],
                batch.previous_intrinsic[rows],
                arms,
                state.detach(),
            )
            values.append(value if arms.dim() == 1 else value.flatten(2, 3))
        return values[0] if len(values) == 1 else torch.cat(values, dim=1)

    def _over_time(self, row_losses: Tensor, trained: Tensor) -> Tensor:
        """Losses of rows [..., T, N] summed (or averaged) over the time of each window."""
        per_window = row_losses.sum(-2)
        if self._config.learner.reduction == "mean":
            per_window = per_window / trained.sum(0).clamp(min=1)
        return per_window

    def _novelty_losses(
        self, batch: Batch, prepared: Tensor
    ) -> tuple[dict[str, Tensor], tuple[Tensor, Tensor] | None]:
        """Losses of inverse dynamics and RND on the last valid steps of windows (NGU, appendix A).

        Also the number of actions that were recognised, and of how many.
        """
        embedding, rnd = self.networks.embedding, self.networks.rnd
        if embedding is None or rnd is None:
            return {}, None
        length = batch.mask.sum(0)  # [B]; valid rows come first
        back = torch.arange(self._config.learner.novelty_steps, device=self._device)[:, None]
        row = length - 1 - back  # [S, B]
        exists = (row >= 0).float().flatten()
        share = exists / exists.sum()  # weight of each step in the means, 0 if it does not exist
        row = row.clamp(min=0)
        column = torch.arange(row.shape[1], device=self._device).expand_as(row)
        row, column = row.flatten(), column.flatten()
        before, after = prepared[row, column], prepared[row + 1, column]
        action = batch.action[row, column]
        logits = embedding.action_logits(before, after)
        losses = {
            "inverse_dynamics": (share * F.cross_entropy(logits, action, reduction="none")).sum(),
            "rnd": (share * rnd(after)).sum(),
        }
        return losses, ((exists * (logits.argmax(-1) == action)).sum(), exists.sum())

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on."""
        return {
            "networks": self.networks.state_dict(),
            "td_squares": self._td_squares,
            "target": self._target.state_dict(),
            "optimisers": {name: opt.state_dict() for name, opt in self._optimisers.items()},
            "num_updates": self.num_updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.networks.load_state_dict(state["networks"])
        self._td_squares = saved_squares(state, state["networks"], self._td_squares)
        self._target.load_state_dict(state["target"])
        for name, optimiser in self._optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        self.num_updates = state["num_updates"]


def _of_all(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sum and number of all values."""
    return values.sum(), values.new_tensor(values.numel())


def _names(name: str, values: Tensor) -> list[str]:
    """The name of a scalar, or one name per arm."""
    return [f"{name}/{arm}" for arm in range(len(values))] if values.dim() else [name]
