"""One update from one batch of windows.

- Q^e and Q^i learn by transformed Retrace, each from its own reward, under one shared policy: the
  epsilon-greedy policy of their online mixture (`learner.loss` chooses other returns)
- one Adam and one norm clip per network; target networks copied every `target_period` updates
- inverse dynamics and RND learn from the last valid steps of each window
- new priorities come from delta^e + beta_j delta^i
- several learners, each with a share of the batch, have the result of one with the whole batch

Read `Learner.update` first. `_forward` runs the networks and finds the errors (it may be compiled).
All learners then agree on the scale of the errors, and compute the losses with it.
"""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agent57.allocator import keep_freed_memory
from agent57.compilation import compiled
from agent57.config import Config
from agent57.nets.networks import Networks
from agent57.nets.standard import moments, pooled
from agent57.ops.family import betas, gammas
from agent57.ops.meme import crossed, learned_weights
from agent57.ops.retrace import played_values
from agent57.ops.td import (
    follow,
    fresh_squares,
    importance_weights,
    learned_values,
    mean_loss,
    of_played_arms,
    policy_losses,
    saved_squares,
    split_outputs,
    summed_squares,
    target_policy,
    td_errors,
    td_scale,
    trained_rows,
    value_losses,
    window_priorities,
)
from agent57.player import Weights
from agent57.precision import settle_precision
from agent57.threads import SideBySide, in_turn
from agent57.types import Batch, Windows
from agent57.update_metrics import (
    Sums,
    batch_sums,
    churn_sums,
    means,
    of_rows,
    scaled_sums,
    update_metrics,
)

CHURN_PERIOD = 100  # updates between measurements of the churn of greedy actions
NOVELTY = ("inverse_dynamics", "rnd")  # the networks behind the intrinsic reward


class NonFiniteUpdate(FloatingPointError):
    """A loss or a gradient is not a finite number; no weight was changed."""

    def __init__(self, name: str, batch: Batch) -> None:
        super().__init__(f"{name} is not finite")
        self.name = name
        self.batch = batch

    def __reduce__(self) -> tuple[type[Self], tuple[str, Batch]]:
        """Pickle by the arguments of the constructor."""
        return type(self), (self.name, self.batch)


class LoneLearner:
    """A group of one, which exchanges nothing. See `data_parallel` for larger groups."""

    def check_in_step(self, num_updates: int) -> None:
        """Raise RuntimeError unless all learners have made the same number of updates."""

    def gather(self, values: Tensor) -> Tensor:
        """Return the values of every learner, [D, ...], the same for all of them."""
        return values[None]

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over the learners, all of them in one exchange."""


class Forward(NamedTuple):
    """The networks' results on a batch; N columns are B windows, or B x J with every arm."""

    td: Tensor  # [L, T, N], with gradient
    ahead: Tensor  # [L, T, N], online less target value of the played actions
    policy_loss: Tensor | None  # [T, N], with gradient; see `ops.meme.distillation_loss`
    squares: Tensor  # [L+1, J], see `ops.td.summed_squares`
    novelty_losses: dict[str, Tensor]
    online: Tensor  # [V, T+1, B, A], of the played arms
    policy: Tensor | None  # [T, B, A], distilled, of the played arms
    sums: Sums  # to log


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The outcome of an update."""

    priorities: Tensor  # [B], raw
    metrics: dict[str, float]


class Learner:
    """The online and target networks and their optimisers.

    In a `group` of several learners, all start with the same weights, load the same state, and
    take their shares of the windows of each batch at the same time. Losses, gradients and metrics
    then belong to the whole batch, priorities to the share.
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
        self._trained = {
            name: list(module.parameters()) for name, module in self._trained_modules().items()
        }
        self._optimisers = {
            name: self._make_optimiser(name, weights) for name, weights in self._trained.items()
        }
        # Running mean squares of the TD errors of each arm, see `ops.td.follow`.
        self._td_squares = fresh_squares(config).to(device)
        self._compiled_forward = compiled(self._forward, config.learner.compile, device)
        self._side_by_side = SideBySide(device, is_compiled=config.learner.compile == "on")
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

    def _make_optimiser(self, name: str, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        """Adam, with L2 in the loss of inverse dynamics and decoupled decay of the values."""
        config = self._config.learner
        is_novelty = name in NOVELTY
        is_decayed = config.weight_decay > 0 and not is_novelty
        kind = torch.optim.AdamW if is_decayed else torch.optim.Adam
        l2 = config.inverse_l2 if name == "inverse_dynamics" else 0.0
        return kind(
            weights,
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
        """Make one step of every optimiser, or raise `NonFiniteUpdate` and touch no weight."""
        with self._side_by_side.halved():
            return self._update(batch)

    def _update(self, batch: Batch) -> Update:
        config = self._config
        batch = batch.to(self._device)
        windows: Windows = batch
        if config.learner.cross_mixture < 1:
            batch, windows = crossed(batch, self.num_updates, config)
        found = self._compiled_forward(batch, windows)
        squares = self._group.gather(found.squares).sum(0)
        scale = td_scale(self._td_squares, squares if config.learner.td_scale_batch else None)
        losses, counted = self._losses(batch, windows, found, scale)
        norms = self._find_gradients(losses)
        td = of_played_arms(found.td.detach(), batch)
        priorities, mixed = window_priorities(td, scale, batch, self._beta[batch.arm], config)
        sums = found.sums | scaled_sums(batch, counted, priorities, mixed, config)
        metrics = update_metrics(
            losses, norms, priorities, sums, config.learner.clip_norm, self._group.gather
        )
        for name, value in metrics.items():
            if name.startswith(("loss/", "gradient_norm/")) and not math.isfinite(value):
                raise NonFiniteUpdate(name, batch.map(lambda x: x.cpu()))
        for optimiser in self._optimisers.values():
            optimiser.step()
        if (self.num_updates + 1) % CHURN_PERIOD == 0:
            metrics |= self._churn(batch, found)
        self._follow(batch, squares)
        return Update(priorities=priorities.cpu(), metrics=metrics)

    def _forward(self, batch: Batch, windows: Windows) -> Forward:
        """Run the networks on a batch, and find the errors of its windows as they are learned."""
        config = self._config
        prepared = self.networks.prepare(batch.observation)
        unrolls = [
            partial(self._unroll, nets, batch, prepared, windows.arm)
            for nets in (self.networks.value, self._target)
        ]
        # Separate networks run side by side in each unroll; with one network, the two unrolls do.
        run = self._side_by_side if self.networks.num_cores == 1 else in_turn
        (online, logits), (target, target_logits) = run(unrolls)
        beta, scale = self._beta[windows.arm], td_scale(self._td_squares)
        policy = target_policy(logits, config.learner)
        learned, behind = (learned_values(value, beta, config) for value in (online, target))
        td = td_errors(
            learned,
            learned.detach() if config.learner.trust_region else behind,
            windows,
            beta=beta,
            gamma=self._gamma[windows.arm],
            loss=config.learner,
            values=config.learned_kind,
            scale=scale,
            policy=policy,
        )
        trained = trained_rows(windows, config.sequence.burn_in)
        novelty_losses, sums = self._novelty_losses(batch, prepared)
        values = online.detach()
        online, target, errors = (of_played_arms(x, batch) for x in (values, target, td.detach()))
        if policy is not None:
            policy = of_played_arms(policy[None, :-1], batch)[0]
        played = self._beta[batch.arm]
        sums |= batch_sums(batch, online, target, policy, errors, scale, played, config)
        action = windows.action.expand(len(td), -1, -1)
        return Forward(
            td=td,
            ahead=played_values(action, (learned.detach() - behind)[:, :-1]),
            policy_loss=policy_losses(logits, target_logits, values, beta, config),
            squares=summed_squares(td.detach(), trained, windows.arm, len(self._beta)),
            novelty_losses=novelty_losses,
            online=online,
            policy=policy,
            sums=sums,
        )

    def _unroll(
        self, nets: nn.Module, batch: Batch, prepared: Tensor, arm: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Values [V, T+1, N, A] and logits [T+1, N, A] of a batch, for N / B arms of each window.

        No gradient flows from the trace into the burn-in.
        """
        burn_in, num_windows = self._config.sequence.burn_in, len(batch.arm)
        arms = arm if len(arm) == num_windows else arm.view(num_windows, -1)
        state, outputs = batch.state, []
        with torch.autocast(
            self._device.type, torch.bfloat16, enabled=self._precision == "bfloat16"
        ):
            for rows in (slice(0, burn_in), slice(burn_in, None)):
                if rows == slice(0, 0):
                    continue
                output, state = nets(
                    prepared[rows],
                    batch.previous_action[rows],
                    batch.previous_extrinsic[rows],
                    batch.previous_intrinsic[rows],
                    arms,
                    state.detach(),
                    self._side_by_side,
                )
                outputs.append(output if arms.dim() == 1 else output.flatten(2, 3))
            joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
        return split_outputs(joined.float(), self._config)

    def _novelty_losses(self, batch: Batch, prepared: Tensor) -> tuple[dict[str, Tensor], Sums]:
        """Losses of inverse dynamics and RND on the last valid steps of windows (NGU, appendix A).

        Also how many actions the inverse dynamics recognised.
        """
        embedding, rnd = self.networks.embedding, self.networks.rnd
        if embedding is None or rnd is None:
            return {}, {}
        steps = torch.arange(self._config.learner.novelty_steps + 1, device=self._device)
        row = batch.mask.sum(0) - steps[:, None]  # [S+1, B], backwards; valid rows come first
        exists = (row[1:] >= 0).float().flatten()
        share = exists / exists.sum()  # weight of each step in the means, 0 if it does not exist
        row = row.clamp(min=0)
        column = torch.arange(row.shape[1], device=self._device).expand_as(row)
        action = batch.action[row[1:], column[1:]].flatten()
        seen = prepared[row, column].flatten(0, 1)  # each step leads from row s+1 to row s

        def recognised() -> Tensor:
            embedded = embedding(seen).unflatten(0, row.shape)
            return embedding.action_logits(embedded[1:], embedded[:-1]).flatten(0, 1)

        logits, errors = self._side_by_side([recognised, lambda: rnd(seen[: len(action)])])
        losses = {
            "inverse_dynamics": (share * F.cross_entropy(logits, action, reduction="none")).sum(),
            "rnd": (share * errors).sum(),
        }
        return losses, {"inverse_dynamics/accuracy": of_rows(logits.argmax(-1) == action, exists)}

    def _losses(
        self, batch: Batch, windows: Windows, found: Forward, scale: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Losses of all networks as this learner's share of them, and the rows that count."""
        config = self._config
        trained = trained_rows(windows, config.sequence.burn_in)
        weight = importance_weights(batch.probability, config.replay.importance_exponent)
        if windows is not batch:
            weight = learned_weights(weight, batch, windows, config)
        of_values, counted = value_losses(
            found.td, found.ahead, scale, windows, trained, weight, config.learner
        )
        losses = dict(zip(config.learned_names, of_values, strict=True))
        if found.policy_loss is not None:
            losses["policy"] = mean_loss(
                found.policy_loss * trained, trained, weight, config.learner
            )
        losses |= found.novelty_losses
        value_share, novelty_share = self._shares(batch)
        return {
            name: loss * (novelty_share if name in NOVELTY else value_share)
            for name, loss in losses.items()
        }, counted

    def _shares(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Factors of this learner's value and novelty losses in the losses of the whole batch.

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
        return (windows * largest / every[:, 2].amax()).float(), steps.float()

    def _find_gradients(self, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """Gradients of all networks, clipped one by one; return their norms before the clip."""
        for optimiser in self._optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        loss = torch.stack(list(losses.values())).sum()
        trained = self._trained.values()
        if self._side_by_side.is_parallel:
            self._side_by_side(
                [partial(loss.backward, retain_graph=True, inputs=weights) for weights in trained]
            )
        else:
            loss.backward()
        self._group.average(w.grad for weights in trained for w in weights if w.grad is not None)
        clip = self._config.learner.clip_norm
        return {
            name: nn.utils.clip_grad_norm_(weights, clip) for name, weights in self._trained.items()
        }

    def _follow(self, batch: Batch, squares: Tensor) -> None:
        """Let the running statistics, the average and the target networks follow an update."""
        follow(self._td_squares, squares)
        if self.networks.standard is not None:
            seen = moments(batch.observation[:-1].float(), batch.mask)
            self.networks.standard.follow(pooled(self._group.gather(seen)))
        self.num_updates += 1
        self.networks.follow_average()
        if self.num_updates % self._config.learner.target_period == 0:
            self._target.load_state_dict(self.networks.value.state_dict())

    @torch.no_grad()
    def _churn(self, batch: Batch, found: Forward) -> dict[str, float]:
        """Share of the trained rows whose greedy action this update has changed."""
        prepared = self.networks.prepare(batch.observation)
        value, logits = self._unroll(self.networks.value, batch, prepared, batch.arm)
        beta = self._beta[batch.arm]
        sums = churn_sums(batch, found.online, value, found.policy, logits, beta, self._config)
        return means(sums, self._group.gather)

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
        self.num_updates = int(state["num_updates"])
