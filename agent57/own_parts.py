"""Registered parts: an intrinsic reward, a controller, a torso or a family from a user's program.

A program registers a part under a name, and a field of the configuration selects the name. A run
stores only the name, so the part must be registered again before the run is resumed, evaluated or
loaded. A family is the exception: its numbers are stored with the run.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from agent57.config import Config, ConfigError, ControllerConfig, FamilyConfig, require
from agent57.types import EnvSpec


class IntrinsicReward(Protocol):
    """Scores the states that E lanes arrive at, in place of NGU's novelty.

    Observations are already prepared: pixels in [0, 1], grids as bits, vectors unchanged.
    """

    def begin(self, lanes: np.ndarray, observation: Tensor) -> None:
        """Start new episodes in the lanes of the mask [E], at these observations [E, ...]."""
        ...

    def reward(self, observation: Tensor) -> np.ndarray:
        """Return r^i [E] of arriving at these observations [E, ...]."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain containers from which to go on exactly."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        ...


class ArmController(Protocol):
    """Chooses the arm of the next episode, in place of the built-in `bandit.Controller`."""

    def select(self) -> int:
        """Return the arm to play an episode with."""
        ...

    def observe(self, arm: int, episode_return: float) -> None:
        """Take a completed episode into account."""
        ...

    def best(self) -> int:
        """Return the arm to evaluate with."""
        ...

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how often each arm was played lately, and its mean return (0 if never)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain containers from which to go on exactly."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        ...


class ArmFamily(Protocol):
    """Lists the arms of the agent, in place of the paper's curves."""

    def __call__(self, config: FamilyConfig) -> Sequence[tuple[float, float]]:
        """Return (beta_j, gamma_j) of each arm j. Arm 0 must have beta 0."""
        ...


RewardMaker = Callable[[int, EnvSpec], IntrinsicReward]  # (num_lanes, spec)
ControllerMaker = Callable[[ControllerConfig, int, int, np.random.Generator], ArmController]
TorsoMaker = Callable[[tuple[int, ...]], nn.Module]  # (shape of a prepared observation)

REWARDS: dict[str, RewardMaker] = {}
CONTROLLERS: dict[str, ControllerMaker] = {}
TORSOS: dict[str, TorsoMaker] = {}
FAMILIES: dict[str, ArmFamily] = {}


def register_intrinsic_reward(name: str, maker: RewardMaker) -> None:
    """Let `curiosity.own_reward` name an intrinsic reward: maker(num_lanes, spec)."""
    REWARDS[name] = maker


def register_controller(name: str, maker: ControllerMaker) -> None:
    """Let `controller.own` name a controller: maker(config, num_arms, lane, rng)."""
    CONTROLLERS[name] = maker


def register_torso(name: str, maker: TorsoMaker) -> None:
    """Let `network.own_torso` name a torso: maker(shape), a module from [N, *shape] to [N, F]."""
    TORSOS[name] = maker


def register_family(name: str, family: ArmFamily) -> None:
    """Let `family.own` name a family of arms: family(config), a list of (beta, gamma)."""
    FAMILIES[name] = family


def own_reward(name: str) -> RewardMaker:
    """Return the intrinsic reward with this name; raise `ConfigError` if it is not registered."""
    _check(REWARDS, "curiosity.own_reward", name, "register_intrinsic_reward")
    return REWARDS[name]


def own_controller(name: str) -> ControllerMaker:
    """Return the controller with this name; raise `ConfigError` if it is not registered."""
    _check(CONTROLLERS, "controller.own", name, "register_controller")
    return CONTROLLERS[name]


def own_torso(name: str) -> TorsoMaker:
    """Return the torso with this name; raise `ConfigError` if it is not registered."""
    _check(TORSOS, "network.own_torso", name, "register_torso")
    return TORSOS[name]


def with_own_family(config: Config) -> Config:
    """Return the configuration with the arms of its registered family, if it names one."""
    name = config.family.own
    if not name:
        return config
    _check(FAMILIES, "family.own", name, "register_family")
    arms = list(FAMILIES[name](config.family))
    try:
        betas, gammas = tuple(float(b) for b, _ in arms), tuple(float(g) for _, g in arms)
        # With `own` empty, the section checks these numbers as it checks numbers set by a user.
        family = replace(config.family, own="", arms=len(arms), betas=betas, gammas=gammas)
    except (ConfigError, TypeError, ValueError) as error:
        raise ConfigError(
            f"family.own {name!r} must return (beta, gamma) of each arm: {error}"
        ) from None
    return replace(config, family=replace(family, own=name))


def check_parts(config: Config) -> None:
    """Refuse a configuration that names an unregistered part."""
    if config.curiosity.own_reward and config.family.is_curious:
        own_reward(config.curiosity.own_reward)
    for section in (config.controller, config.evaluator_controller):
        if section.own:
            own_controller(section.own)
    if config.network.own_torso:
        own_torso(config.network.own_torso)


def _check(known: dict[str, Any], field: str, name: str, function: str) -> None:
    require(
        name in known,
        f"{field} {name!r} is not registered in this program: call agent57.{function}({name!r}, "
        f"...) first",
    )
