"""What an environment of E lanes offers to a player. No environment lives here."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """What a player must know of a task."""

    name: str
    kind: Literal["pixels", "grid", "vector"]  # which torso fits
    observation_shape: tuple[int, ...]  # (C, Y, X), or (D,) for a vector
    observation_dtype: Literal["uint8", "float32"]
    num_actions: int
    frames_per_step: int  # emulator frames per agent step; 1 outside Atari
    max_value: int = 255  # of a uint8 observation
    action_names: tuple[str, ...] = ()  # by action; empty where the task names none

    @property
    def observation_bytes(self) -> int:
        """Bytes of one observation before compression."""
        return math.prod(self.observation_shape) * np.dtype(self.observation_dtype).itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one action per lane brought. No lane is reset by itself."""

    observation: np.ndarray  # [E, ...]; where the episode was truncated, its true last one
    reward: np.ndarray  # [E] float32, raw
    terminated: np.ndarray  # [E] bool
    truncated: np.ndarray  # [E] bool, never where terminated


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """A running episode as its seed and the actions so far: enough to play it again elsewhere."""

    seed: int
    actions: np.ndarray  # [T] int64


def nothing() -> None:
    """What is done while lanes play, unless somebody says otherwise."""


class EnvironmentFault(RuntimeError):
    """An environment broke its contract or raised while it played: names it, and the lane if known.

    The cause is chained where there is one. What the environment does next is undefined.
    """


class VectorEnv(Protocol):
    """E lanes of one task, each with episodes, seeds and an end of its own."""

    spec: EnvSpec
    num_lanes: int

    def reset(self, lanes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Start a new episode in the lanes of the mask [E]; the current observations of all lanes.

        `seeds` [E] are non-negative and below 2**31; the same seed and actions give the same
        episode. The first reset is of all lanes; later ones of any, whose episode ended or not.
        """
        ...

    def step(self, action: np.ndarray, meanwhile: Callable[[], None] = nothing) -> Step:
        """Play one action [E] per lane.

        `meanwhile` is called once, while the lanes play where they can play by themselves; it must
        not touch this environment. An action outside the space, or a lane whose episode ended,
        raises ValueError before that.
        """
        ...

    def render(self, lane: int) -> np.ndarray:
        """The lane's picture in colour, [Y, X, 3] uint8."""
        ...

    def running_episode(self, lane: int) -> EpisodeRecord | None:
        """Return what plays the lane's episode again; None where drawing a lane costs nothing."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain containers from which the running episodes can be rebuilt."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Rebuild the running episodes; a mask [E] of the lanes where this succeeded.

        The other lanes are to be reset before the next step.
        """
        ...

    def close(self) -> None:
        """Release the lanes."""
        ...
