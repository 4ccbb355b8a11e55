"""One update from one batch of windows.

- both value networks by transformed Retrace, each on its own reward, under one shared policy: the
  epsilon-greedy one of their online mixture (or n-step double Q, for R2D2)
- one Adam and one norm clip per network; target networks copied every `target_period` updates
- inverse dynamics and RND on the last valid steps of each window
- new priorities from delta^e + beta_j delta^i
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agent57.compilation import compiled
from agent57.config import Config, require
from agent57.nets.networks import Networks
from agent57.ops.family import betas, gammas
from agent57.ops.priority import importance_weights, sequence_priority, trained_rows
from agent57.ops.td import mixed_td_error, td_errors, value_weights
from agent57.player import Weights
from agent57.types import Batch


class NonFiniteUpdate(FloatingPointError):
    """A loss or a gradient that is not a finite number; the weights were left as they were."""

    def __init__(self, name: str, batch: Batch) -> None:
        super().__init__(f"{name} is not finite")
        self.batch = batch


def check_precision(config: Config, device: torch.device) -> None:
    """Refuse a precision the device cannot learn in."""
    require(
        config.learner.precision == "float32" or device.type != "cpu",
        "learner.precision bfloat16 needs a GPU: use float32 on a CPU",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What an update leaves behind."""

    priorities: Tensor  # [B], raw
    metrics: dict[str, float]


class Learner:
    """The online and target networks and their optimisers."""

    def __init__(self, config: Config, networks: Networks, device: torch.device) -> None:
        check_precision(config, device)
        self._config = config
        self._device = device
        self.networks = networks.to(device).train()
        self._target = copy.deepcopy(networks.value).requires_grad_(False).to(device)
        self._beta = torch.from_numpy(betas(config.family)).float().to(device)
        self._gamma = torch.from_numpy(gammas(config.family)).float().to(device)
        self._trained = self._trained_modules()
        self._optimisers = {
            name: self._make_optimiser(name, module) for name, module in self._trained.items()
        }
        self._compiled_losses = compiled(self._losses, config.learner.compile, device)
        self.num_updates = 0

    def _trained_modules(self) -> dict[str, nn.Module]:
        """Every network with an optimiser of its own."""
        names = ("extrinsic", "intrinsic") if self.networks.num_values == 2 else ("joint",)
        modules: dict[str, nn.Module] = dict(zip(names, self.networks.value.nets, strict=True))
        if self.networks.embedding is not None and self.networks.rnd is not None:
            modules["inverse_dynamics"] = self.networks.embedding
            modules["rnd"] = self.networks.rnd.predictor
        return modules

    def _make_optimiser(self, name: str, module: nn.Module) -> torch.optim.Adam:
        config = self._config.learner
        is_novelty = name in ("inverse_dynamics", "rnd")
        return torch.optim.Adam(
            module.parameters(),
            lr=config.novelty_learning_rate if is_novelty else config.learning_rate,
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_epsilon,
            weight_decay=config.inverse_l2 if name == "inverse_dynamics" else 0.0,
            fused=True,
        )

    def weights(self) -> tuple[Weights, int]:
        """The online networks and their version, as actors pull them."""
        return self.networks.state_dict(), self.num_updates

    def update(self, batch: Batch) -> Update:
        """One step of every optimiser; raises `NonFiniteUpdate` before any weight is touched."""
        batch = batch.to(self._device)
        losses, priorities, metrics = self._compiled_losses(batch)
        for optimiser in self._optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        torch.stack(list(losses.values())).sum().backward()
        norms = {name: self._clip(module) for name, module in self._trained.items()}
        self._check_finite(losses, norms, batch)
        for optimiser in self._optimisers.values():
            optimiser.step()
        self.num_updates += 1
        if self.num_updates % self._config.learner.target_period == 0:
            self._target.load_state_dict(self.networks.value.state_dict())
        metrics |= {f"loss/{name}": loss.detach() for name, loss in losses.items()}
        metrics |= {f"gradient_norm/{name}": norm for name, norm in norms.items()}
        clip = self._config.learner.clip_norm
        metrics |= {f"clipped/{name}": (norm > clip).float() for name, norm in norms.items()}
        return Update(priorities=priorities.cpu(), metrics=_to_floats(metrics))

    def _clip(self, module: nn.Module) -> Tensor:
        """Clip the gradient of one network; its norm before that."""
        return nn.utils.clip_grad_norm_(module.parameters(), self._config.learner.clip_norm)

    def _check_finite(
        self, losses: dict[str, Tensor], norms: dict[str, Tensor], batch: Batch
    ) -> None:
        values = torch.stack([*losses.values(), *norms.values()])
        if not torch.isfinite(values).all():
            names = [f"loss/{name}" for name in losses] + [f"gradient/{name}" for name in norms]
            culprit = names[int((~torch.isfinite(values)).nonzero()[0])]
            raise NonFiniteUpdate(culprit, batch.map(lambda x: x.cpu()))

    def _losses(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
        """Loss of each trained network, new priorities [B], and what to log."""
        config = self._config
        prepared = self.networks.prepare(batch.observation)
        with torch.autocast(
            self._device.type, torch.bfloat16, enabled=config.learner.precision == "bfloat16"
        ):
            online = self._unroll(self.networks.value, batch, prepared).float()
            with torch.no_grad():
                target = self._unroll(self._target, batch, prepared).float()
        beta, gamma = self._beta[batch.arm], self._gamma[batch.arm]
        td = td_errors(
            online,
            target,
            action=batch.action,
            action_prob=batch.action_prob,
            extrinsic=batch.extrinsic,
            intrinsic=batch.intrinsic,
            discount=batch.discount,
            mask=batch.mask,
            beta=beta,
            gamma=gamma,
            loss=config.learner,
            values=config.network.values,
        )
        trained = trained_rows(batch.mask, batch.start, config.sequence.burn_in)
        weight = importance_weights(batch.probability, config.replay.importance_exponent)
        value_loss = self._reduce(td, trained, weight.float())
        mixed = mixed_td_error(td.detach(), value_weights(beta, config.network.values))
        priorities = sequence_priority(mixed, trained, config.replay.priority_mix)
        losses = dict(zip(self._trained, value_loss, strict=False))
        metrics = {
            "value/extrinsic": online[0].detach().mean(),
            "value/intrinsic": online[-1].detach().mean(),
            "td/mean_abs": (mixed.abs() * trained).sum() / trained.sum().clamp(min=1),
            "priority/mean": priorities.mean(),
            "priority/max": priorities.max(),
        }
        if "rnd" in self._trained:
            novelty_losses, accuracy = self._novelty_losses(batch, prepared)
            losses |= novelty_losses
            metrics["inverse_dynamics/accuracy"] = accuracy
        return losses, priorities, metrics

    def _unroll(self, nets: nn.Module, batch: Batch, prepared: Tensor) -> Tensor:
        """Values [V, T+1, B, A] of a batch. No gradient flows from the trace into the burn-in."""
        burn_in = self._config.sequence.burn_in
        state, values = batch.state, []
        for rows in (slice(0, burn_in), slice(burn_in, None)):
            if rows == slice(0, 0):
                continue
            value, state = nets(
                prepared[rows],
                batch.previous_action[rows],
                batch.previous_extrinsic[rows],
                batch.previous_intrinsic[rows],
                batch.arm,
                state.detach(),
            )
            values.append(value)
        return values[0] if len(values) == 1 else torch.cat(values, dim=1)

    def _reduce(self, td: Tensor, trained: Tensor, weight: Tensor) -> Tensor:
        """Half the squared errors [V], summed (or averaged) over time, averaged over windows."""
        per_window = 0.5 * (td.square() * trained).sum(1)  # [V, B]
        if self._config.learner.reduction == "mean":
            per_window = per_window / trained.sum(0).clamp(min=1)
        return (per_window * weight).mean(-1)

    def _novelty_losses(self, batch: Batch, prepared: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Inverse dynamics and RND on the last valid steps of each window (NGU, appendix A)."""
        embedding, rnd = self.networks.embedding, self.networks.rnd
        assert embedding is not None
        assert rnd is not None
        length = batch.mask.sum(0)  # [B]; valid rows come first
        back = torch.arange(self._config.learner.novelty_steps, device=self._device)[:, None]
        row = length - 1 - back  # [S, B]
        share = (row >= 0).float().flatten()  # of each step in the means: rows that do not exist, 0
        share = share / share.sum()
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
        return losses, (share * (logits.argmax(-1) == action)).sum()

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on."""
        return {
            "networks": self.networks.state_dict(),
            "target": self._target.state_dict(),
            "optimisers": {name: opt.state_dict() for name, opt in self._optimisers.items()},
            "num_updates": self.num_updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.networks.load_state_dict(state["networks"])
        self._target.load_state_dict(state["target"])
        for name, optimiser in self._optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        self.num_updates = state["num_updates"]


def _to_floats(metrics: dict[str, Tensor]) -> dict[str, float]:
    """Move all scalars off the device at once."""
    return dict(zip(metrics, torch.stack(list(metrics.values())).tolist(), strict=True))
