"""Parts of an agent that a program brings along: an intrinsic reward, a controller, a torso.

A part is registered under a name, and a field of the configuration names it. A run stores the name
only: whoever resumes, evaluates or loads the run registers the same name first.

A family of arms needs no registration: `family.betas` and `family.gammas` take any values.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from agent57.config import ControllerConfig, require
from agent57.types import EnvSpec


class IntrinsicReward(Protocol):
    """Scores the states that E lanes arrive at, in place of NGU's novelty.

    Observations come prepared: pixels in [0, 1], grids as bits, vectors as they are.
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
    """Chooses the arm of the next episode, in place of the bandit; `bandit.Controller` is one."""

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


RewardMaker = Callable[[int, EnvSpec], IntrinsicReward]  # of the number of lanes, and the task
ControllerMaker = Callable[[ControllerConfig, int, int, np.random.Generator], ArmController]
TorsoMaker = Callable[[tuple[int, ...]], nn.Module]  # of the shape of a prepared observation

_rewards: dict[str, RewardMaker] = {}
_controllers: dict[str, ControllerMaker] = {}
_torsos: dict[str, TorsoMaker] = {}


def register_intrinsic_reward(name: str, maker: RewardMaker) -> None:
    """Let `curiosity.own_reward` name an intrinsic reward: maker(num_lanes, spec)."""
    _rewards[name] = maker


def register_controller(name: str, maker: ControllerMaker) -> None:
    """Let `controller.own` name a controller: maker(config, num_arms, lane, rng)."""
    _controllers[name] = maker


def register_torso(name: str, maker: TorsoMaker) -> None:
    """Let `network.own_torso` name a torso: maker(shape), a module from [N, *shape] to [N, F]."""
    _torsos[name] = maker


def own_reward(name: str) -> RewardMaker:
    """Return the intrinsic reward of a name; `ConfigError` if nobody registered it."""
    _check(_rewards, "curiosity.own_reward", name, "register_intrinsic_reward")
    return _rewards[name]


def own_controller(name: str) -> ControllerMaker:
    """Return the controller of a name; `ConfigError` if nobody registered it."""
    _check(_controllers, "controller.own", name, "register_controller")
    return _controllers[name]


def own_torso(name: str) -> TorsoMaker:
    """Return the torso of a name; `ConfigError` if nobody registered it."""
    _check(_torsos, "network.own_torso", name, "register_torso")
    return _torsos[name]


def _check(known: dict[str, Any], field: str, name: str, function: str) -> None:
    require(
        name in known,
        f"{field} {name!r} is not registered in this program: call agent57.{function}({name!r}, "
        f"...) first",
    )
