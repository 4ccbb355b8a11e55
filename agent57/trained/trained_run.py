"""A trained run, reduced to the parts of a checkpoint that acting needs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agent57.allocator import enough_memory
from agent57.bandit import Controller, make_controller
from agent57.config import Config, ConfigError, check_type, require
from agent57.envs.gymnasium import import_modules
from agent57.envs.make import check_env
from agent57.envs.spec import VectorEnv
from agent57.nets.networks import Networks, make_networks
from agent57.ops.family import betas, gammas
from agent57.own_parts import CONTROLLERS
from agent57.player import Player, Weights
from agent57.runtime.saving import check_same_config
from agent57.seeds import Role
from agent57.storage.checkpoint import newest_state
from agent57.storage.folder import CHECKPOINTS, read_config
from agent57.types import EnvSpec

SCALES = ("distance_sum", "distance_count")  # of the episodic memory; they outlive episodes
COUNTERS = ("frames", "steps", "updates")
ROLES = (Role.TRIAL_EPISODES, Role.TRIAL_ACTIONS)


def evaluator_state(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the evaluator's state, or its lasting state if it did not answer."""
    found: dict[str, Any] = parts["evaluator"] or parts["evaluator_lasting"]
    return found


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """The newest undamaged checkpoint of a run, or a policy that was saved to a file."""

    path: Path  # the run folder, or the file
    config: Config
    counters: dict[str, int]  # frames, steps and updates of training
    weights: Weights
    best_arm: int  # by the returns of the evaluator, see `Controller.surest`
    curiosity: dict[str, Any] | None  # state of the evaluator's curiosity, for its running scales
    spec: EnvSpec | None = None  # of the task; None if it was read from a run folder
    damaged: tuple[str, ...] = ()  # what is wrong with newer checkpoints, which were skipped

    def __post_init__(self) -> None:
        """Check values that a forged file may hold; `make_networks` checks the weights."""
        for name in COUNTERS:
            check_type(int, self.counters.get(name), f"counters.{name}")
        check_type(int, self.best_arm, "best_arm")
        last = self.config.family.arms - 1
        require(0 <= self.best_arm <= last, f"best_arm must lie in 0 to {last}")
        is_kind = self.curiosity is None or isinstance(self.curiosity, dict)
        require(is_kind, "curiosity must be a group of fields or nothing")

    @classmethod
    def load(cls, path: Path) -> "TrainedRun":
        """Read a run folder; raise `ConfigError` without a run or a usable checkpoint."""
        config = read_config(path)
        state, damaged = newest_state(path / CHECKPOINTS)
        check_same_config(config, state)
        try:
            if config.evaluator_controller.own not in ("", *CONTROLLERS):
                import_modules(config.env)
            evaluator = evaluator_state(state["parts"])
            rng = np.random.default_rng(0)
            controller = make_controller(config.evaluator_controller, config.family.arms, 0, rng)
            controller.load_state_dict(evaluator["controller"])
            return cls(
                path=path,
                config=config,
                counters={name: int(state["counters"][name]) for name in COUNTERS},
                weights=dict(state["parts"]["learner"]["networks"]),
                best_arm=(
                    controller.surest() if isinstance(controller, Controller) else controller.best()
                ),
                curiosity=evaluator["player"]["curiosity"],
                damaged=tuple(damaged),
            )
        except ConfigError as error:  # such as a controller that is not registered
            raise ConfigError(f"{path}: {error}") from None
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise ConfigError(
                f"{path} holds no state that can play: {type(error).__name__} {error}"
            ) from None

    def choose_arm(self, arm: int | None) -> int:
        """Return `arm`, or the surest arm of the evaluator's bandit if it is None."""
        if arm is None:
            return self.best_arm
        last = self.config.family.arms - 1
        require(0 <= arm <= last, f"--arm must lie in 0 to {last}, the arms of this run, got {arm}")
        return arm

    def task(self) -> EnvSpec:
        """Return the spec of the task. A run folder does not hold it: make the environment."""
        if self.spec is not None:
            return self.spec
        try:
            return check_env(self.config.env)
        except ConfigError as error:
            raise ConfigError(
                f"{error}; a policy file needs no environment: write one where it is installed, "
                f"with `agent57 export {self.path} --weights FILE`"
            ) from None

    def scales(self) -> dict[str, Any] | None:
        """Return the running scales of the evaluator's novelty, without the current episode."""
        if self.curiosity is None or "memory" not in self.curiosity:  # a registered reward
            return None
        memory = {name: self.curiosity["memory"][name] for name in SCALES}
        scales = {name: self.curiosity.get(name) for name in ("moments", "scale")}
        return {"memory": memory, **scales}

    def beta_gamma(self, arm: int) -> tuple[float, float]:
        """Return beta and gamma of an arm: its weight of novelty and its discount."""
        return float(betas(self.config.family)[arm]), float(gammas(self.config.family)[arm])

    def make_networks(self, spec: EnvSpec) -> Networks:
        """Make the run's networks for its task, with the trained weights."""
        try:
            self._check_shapes(spec)
            networks = make_networks(self.config, spec)
            networks.load_state_dict(self.weights)
            are_finite = all(bool(torch.isfinite(weight).all()) for weight in networks.parameters())
            require(are_finite, f"{self.path} holds weights that are not finite")
        except (RuntimeError, TypeError, AttributeError) as error:
            reason = " ".join(str(error).split()[:40])
            raise ConfigError(f"{self.path} holds weights of other networks: {reason}") from None
        return networks

    def _check_shapes(self, spec: EnvSpec) -> None:
        """Compare the weights with the configuration, before networks of any size are made.

        Networks on the device "meta" take no memory.
        """
        if self.config.network.own_torso:  # user code, which may not support this device
            return
        with torch.device("meta"):
            wanted = make_networks(self.config, spec).state_dict()
        for name, weight in wanted.items():
            given = self.weights.get(name)
            shape = tuple(given.shape) if isinstance(given, torch.Tensor) else None
            require(
                shape == tuple(weight.shape),
                f"{self.path} holds weights of other networks: {name} has shape {shape}, the "
                f"configuration asks for {tuple(weight.shape)}",
            )

    def make_player(
        self,
        env: VectorEnv,
        epsilon: float,
        seed: int,
        device: torch.device,
        first_lane: int = 0,
        networks: Networks | None = None,
    ) -> Player:
        """Make a player with the run's weights and the novelty scales of its evaluator.

        `networks`, if given, come from `make_networks` and are shared with other players.
        """
        config = replace(self.config, run=replace(self.config.run, seed=seed))
        epsilons = np.full(env.num_lanes, epsilon)
        if networks is None:
            networks = self.make_networks(env.spec)
        with enough_memory():
            player = Player(
                config, env, epsilons, ROLES, first_lane, device, networks, is_evaluated=True
            )
        if player.curiosity is not None and self.curiosity and "memory" in self.curiosity:
            try:
                player.curiosity.load_state_dict(self._pooled_scales(player.curiosity.state_dict()))
            except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
                reason = f"{type(error).__name__} {error}".splitlines()[0]
                raise ConfigError(f"{self.path} holds no scales of novelty: {reason}") from None
        return player

    def _pooled_scales(self, fresh: dict[str, Any]) -> dict[str, Any]:
        """Return a fresh state of curiosity with the run's scales, pooled over its lanes."""
        saved = self.curiosity or {}
        for name in ("moments", "scale"):
            if fresh[name] is not None:
                fresh[name] = pooled_moments(saved[name])
        for name in SCALES:
            total = saved["memory"][name].sum()
            require(bool(torch.isfinite(total)), f"{name} is not finite")
            fresh["memory"][name] = total.repeat(len(fresh["memory"][name]))
        return fresh


def pooled_moments(state: dict[str, Any]) -> dict[str, Any]:
    """Pool the saved `RunningMoments` of all lanes into the moments of one lane (Chan et al.)."""
    count, mean, sum_sq = (torch.as_tensor(state[n]) for n in ("count", "mean", "sum_sq"))
    total = count.sum()
    middle = (count * mean).sum() / total.clamp(min=1)
    spread = sum_sq + count * (mean - middle).square()
    return {"count": total[None], "mean": middle[None], "sum_sq": spread.sum()[None]}
