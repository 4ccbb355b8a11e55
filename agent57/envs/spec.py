"""The contract of environments of E lanes, and the checks that all of them share.

`pending` tells a watcher in another thread which environment call is under way, and since when. No
environment lives here.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from agent57.types import EnvSpec

MAX_SEED = 2**31 - 1
_calls: dict[int, list[tuple[str, float]]] = {}  # by thread; a call may contain another


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


class Lanes:
    """Which lanes have a running episode; refuses what no environment could answer."""

    def __init__(self, name: str, num_lanes: int, num_actions: int) -> None:
        if num_lanes < 1:
            raise ValueError(f"{name} needs at least one lane, got {num_lanes}")
        self.name = name
        self.num_lanes = num_lanes
        self.num_actions = num_actions
        self.is_playing = np.zeros(num_lanes, bool)
        self._was_reset = False

    def check_reset(self, lanes: np.ndarray, seeds: np.ndarray) -> None:
        """Refuse a mask or seeds that do not fit."""
        for name, array, kind in (("lanes", lanes, "b"), ("seeds", seeds, "iu")):
            if array.shape != (self.num_lanes,) or array.dtype.kind not in kind:
                raise ValueError(
                    f"{self.name}: {name} must be one {'bool' if kind == 'b' else 'integer'} for "
                    f"each of {self.num_lanes} lanes, got {array.dtype} {array.shape}"
                )
        chosen = seeds[lanes]
        if chosen.size and not (chosen.min() >= 0 and chosen.max() <= MAX_SEED):
            raise ValueError(f"{self.name}: seeds must lie in [0, {MAX_SEED}], got {chosen}")
        if not (self._was_reset or lanes.all()):
            raise ValueError(f"{self.name}: the first reset must be of all lanes")

    def check_action(self, action: np.ndarray) -> np.ndarray:
        """The actions as int64, if each lane can play its own."""
        if action.shape != (self.num_lanes,) or action.dtype.kind not in "iu":
            raise ValueError(
                f"{self.name}: action must be one integer for each of {self.num_lanes} lanes, "
                f"got {action.dtype} {action.shape}"
            )
        if not (action.min() >= 0 and action.max() < self.num_actions):
            lane = int(np.argmax((action < 0) | (action >= self.num_actions)))
            raise ValueError(
                f"{self.name}: action must lie in [0, {self.num_actions - 1}], "
                f"got {action[lane]} in lane {lane}"
            )
        if not self.is_playing.all():
            lane = int(np.argmin(self.is_playing))
            raise ValueError(f"{self.name}: lane {lane} has no running episode, reset it first")
        return action.astype(np.int64, copy=False)

    def check_lane(self, lane: int) -> None:
        """Refuse a lane that is not there or was never reset."""
        if not 0 <= lane < self.num_lanes:
            raise ValueError(f"{self.name}: lane must lie in [0, {self.num_lanes - 1}], got {lane}")
        self.check_begun()

    def check_begun(self) -> None:
        """Refuse to show or save lanes before their first episode."""
        if not self._was_reset:
            raise ValueError(f"{self.name}: reset all lanes first")

    def begin(self, lanes: np.ndarray) -> None:
        """Note that episodes began in the lanes of the mask."""
        self.is_playing |= lanes
        self._was_reset = True

    def end(self, ended: np.ndarray) -> None:
        """Note that episodes ended in the lanes of the mask."""
        self.is_playing &= ~ended

    def restore(self, is_playing: np.ndarray) -> None:
        """Take over which lanes have a running episode."""
        self.is_playing = is_playing.copy()
        self._was_reset = True


@contextmanager
def pending(text: str) -> Iterator[None]:
    """Mark a call of this thread as under way; `text` says whose, such as "lane 3: step"."""
    calls = _calls.setdefault(threading.get_ident(), [])
    calls.append((text, time.monotonic()))
    try:
        yield
    finally:
        calls.pop()


def pending_call(thread: int) -> tuple[str, float] | None:
    """Return the innermost call of a thread and when it began (monotonic seconds), if any."""
    calls = _calls.get(thread)
    return calls[-1] if calls else None
