"""The interface that environments of E lanes implement."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from agent57.types import EnvSpec

MAX_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The outcome of one action per lane. No lane resets itself."""

    observation: np.ndarray  # [E, ...]; the episode's last observation where it was truncated
    reward: np.ndarray  # [E] float32, raw
    terminated: np.ndarray  # [E] bool
    truncated: np.ndarray  # [E] bool, never where terminated


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """A running episode as its seed and the actions so far, from which it can be replayed."""

    seed: int
    actions: np.ndarray  # [T] int64


class EnvironmentFault(RuntimeError):
    """An environment raised an error or broke its contract.

    The message names the environment, and the lane if known. The original error, if any, is
    chained. The environment must not be used any more.
    """


class VectorEnv(Protocol):
    """E lanes of one task. Episodes of different lanes begin and end independently."""

    spec: EnvSpec
    num_lanes: int

    def reset(self, lanes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Start episodes in the lanes of the mask [E]; return all lanes' current observations.

        `seeds` [E] are non-negative and below 2**31. The same seed and actions give the same
        episode. The first reset includes all lanes. Later resets may include any lanes, even lanes
        whose episode is still running.
        """
        ...

    def step(self, action: np.ndarray) -> Step:
        """Play one action [E] per lane.

        An action outside the space, or a lane whose episode ended, raises ValueError before any
        lane plays.
        """
        ...

    def render(self, lane: int) -> np.ndarray:
        """Return the lane's picture in colour, [Y, X, 3] uint8."""
        ...

    def running_episode(self, lane: int) -> EpisodeRecord | None:
        """Return a record that replays the lane's episode; None if `render` needs no replay."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return tensors and plain containers from which running episodes can be rebuilt."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Rebuild the running episodes; return the mask [E] of lanes where this succeeded.

        The other lanes must be reset before the next step.
        """
        ...

    def close(self) -> None:
        """Release the lanes."""
        ...
