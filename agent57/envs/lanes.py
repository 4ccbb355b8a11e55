"""Bookkeeping that all environments of E lanes share.

`Lanes` knows which lanes have a running episode, and refuses invalid calls. `EpisodeLog` holds
running episodes as seeds and actions, from which they can be replayed exactly (`rebuild.py`).
`LoggedEnv` is the base class of environments that use both. `pending` tells a watchdog in another
thread which call is under way.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from agent57.envs.rebuild import rebuild
from agent57.envs.spec import MAX_SEED, EpisodeRecord, Step, VectorEnv
from agent57.types import EnvSpec

FIRST_CAPACITY = 1024  # actions per lane before the log grows
_calls: dict[int, list[tuple[str, float]]] = {}  # by thread; a call may contain another


class Lanes:
    """Tracks which lanes have a running episode, and refuses invalid calls."""

    def __init__(self, name: str, num_lanes: int, num_actions: int) -> None:
        if num_lanes < 1:
            raise ValueError(f"{name} needs at least one lane, got {num_lanes}")
        self.name = name
        self.num_lanes = num_lanes
        self.num_actions = num_actions
        self.is_playing = np.zeros(num_lanes, bool)
        self._was_reset = False

    def check_reset(self, lanes: np.ndarray, seeds: np.ndarray) -> None:
        """Refuse a mask or seeds of a wrong shape, type or range."""
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
            raise ValueError(f"{self.name}: the first reset must include all lanes")

    def check_action(self, action: np.ndarray) -> np.ndarray:
        """Return the actions as int64; refuse them unless every lane can play its action."""
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
        """Refuse a lane that does not exist or was never reset."""
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


class EpisodeLog:
    """Seed, actions and return of the episode that runs in each of E lanes."""

    def __init__(self, num_lanes: int, num_actions: int) -> None:
        self.seed = np.zeros(num_lanes, np.int64)
        self.num_steps = np.zeros(num_lanes, np.int64)
        self.num_episodes = np.zeros(num_lanes, np.int64)  # begun so far, with the running one
        self.returns = np.zeros(num_lanes, np.float64)
        self._actions = np.zeros(
            (num_lanes, FIRST_CAPACITY), np.uint8 if num_actions <= 256 else np.int32
        )
        self._lane = np.arange(num_lanes)

    def begin(self, lanes: np.ndarray, seeds: np.ndarray) -> None:
        """Begin new episodes in the lanes of the mask, and forget the previous ones."""
        self.seed[lanes] = seeds[lanes]
        self.num_steps[lanes] = 0
        self.num_episodes[lanes] += 1
        self.returns[lanes] = 0.0

    def record(self, action: np.ndarray, reward: np.ndarray) -> None:
        """Append one action per lane, and add its reward to the return."""
        if self.num_steps.max() == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[self._lane, self.num_steps] = action
        self.num_steps += 1
        self.returns += reward

    def actions(self, lane: int, start: int = 0) -> np.ndarray:
        """Return the actions of a lane's running episode from step `start` on, [T] int64."""
        return self._actions[lane, start : self.num_steps[lane]].astype(np.int64)

    def record_of(self, lane: int) -> EpisodeRecord:
        """Return a lane's running episode."""
        return EpisodeRecord(seed=int(self.seed[lane]), actions=self.actions(lane))

    def state_dict(self, lanes: Lanes, observation: np.ndarray) -> dict[str, Any]:
        """Return the running episodes and their current observations, for `rebuild`."""
        import torch  # takes a second, which programs that only draw should not wait for

        lanes.check_begun()
        is_played = np.arange(self._actions.shape[1]) < self.num_steps[:, None]
        return {
            "name": lanes.name,
            "is_playing": torch.from_numpy(lanes.is_playing.copy()),
            "observation": torch.from_numpy(observation.copy()),
            "seed": torch.from_numpy(self.seed.copy()),
            "num_steps": torch.from_numpy(self.num_steps.copy()),
            "returns": torch.from_numpy(self.returns.copy()),
            "actions": torch.from_numpy(self._actions[is_played]),  # lane after lane
        }


class LoggedEnv(VectorEnv):
    """E lanes whose episodes are determined by seed and actions, so only these are saved."""

    def __init__(self, spec: EnvSpec, num_lanes: int) -> None:
        self.spec = spec
        self.num_lanes = num_lanes
        self._lanes = Lanes(spec.name, num_lanes, spec.num_actions)
        self._log = EpisodeLog(num_lanes, spec.num_actions)
        self._observation = np.zeros((num_lanes, *spec.observation_shape), spec.observation_dtype)

    def _began(self, lanes: np.ndarray, seeds: np.ndarray) -> None:
        """Note that the lanes of the mask have new episodes."""
        self._lanes.begin(lanes)
        self._log.begin(lanes, seeds)

    def _outcome(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> Step:
        """Note which episodes ended, and return the step with the current observations."""
        truncated = truncated & ~terminated
        self._lanes.end(terminated | truncated)
        return Step(
            observation=self._observation,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
        )

    def running_episode(self, lane: int) -> EpisodeRecord | None:
        """Return the seed and the actions of the lane's episode."""
        return self._log.record_of(lane)

    def state_dict(self) -> dict[str, Any]:
        """Return seeds, actions and current observations of the running episodes."""
        return self._log.state_dict(self._lanes, self._observation)

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Replay the saved episodes; return the mask [E] of lanes that reached the same state."""
        return rebuild(self, state)


@contextmanager
def pending(text: str) -> Iterator[None]:
    """Mark a call of this thread as under way; `text` names it, such as "lane 3: step"."""
    calls = _calls.setdefault(threading.get_ident(), [])
    calls.append((text, time.monotonic()))
    try:
        yield
    finally:
        calls.pop()


def pending_call(thread: int) -> tuple[str, float] | None:
    """Return a thread's innermost running call and its beginning in monotonic seconds, if any."""
    calls = _calls.get(thread)
    return calls[-1] if calls else None
