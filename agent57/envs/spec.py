"""The contract of environments of E lanes. No environment lives here."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from agent57.types import EnvSpec

MAX_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The outcome of one action per lane. No lane resets itself."""

    observation: np.ndarray  # [E, ...]; where the episode was truncated, its true last one
    reward: np.ndarray  # [E] float32, raw
    terminated: np.ndarray  # [E] bool
    truncated: np.ndarray  # [E] bool, never where terminated


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """A running episode as its seed and the actions so far: enough to play it again elsewhere."""

    seed: int
    actions: np.ndarray  # [T] int64


class EnvironmentFault(RuntimeError):
    """An environment raised or broke its contract; the text names it, and the lane if known.

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

    def step(self, action: np.ndarray) -> Step:
        """Play one action [E] per lane.

        An action outside the space, or a lane whose episode ended, raises ValueError before any
        lane plays.
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
