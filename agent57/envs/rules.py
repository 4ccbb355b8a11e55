"""The interface of small tasks, pure functions of integer states, and their environment."""

from typing import Any, Protocol

import numpy as np

from agent57.envs.lanes import Lanes
from agent57.envs.rebuild import check_same_task
from agent57.envs.spec import EpisodeRecord, Step
from agent57.types import EnvSpec


class Rules(Protocol):
    """A task whose functions take N states at once, each a row of S integers."""

    spec: EnvSpec
    max_steps: int  # after which an episode is truncated
    optimal_return: float  # undiscounted return of the best policy

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """Return the first states [N, S] int64 of the episodes with these seeds [N]."""
        ...

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return next states [N, S], rewards [N] float32 and terminations [N] after an action."""
        ...

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Return the observations [N, ...] of the states."""
        ...

    def picture(self, state: np.ndarray) -> np.ndarray:
        """Draw one state [S] in colour, [Y, X, 3] uint8."""
        ...


class RulesEnv:
    """E lanes of one task. A saved state holds the lanes' states, so no episode is replayed."""

    def __init__(self, rules: Rules, num_lanes: int) -> None:
        self.spec = rules.spec
        self.num_lanes = num_lanes
        self.optimal_return = rules.optimal_return
        self._rules = rules
        self._lanes = Lanes(rules.spec.name, num_lanes, rules.spec.num_actions)
        self._state = rules.start(np.zeros(num_lanes, np.int64))
        self._num_steps = np.zeros(num_lanes, np.int64)

    def reset(self, lanes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Start episodes in the lanes of the mask; return all lanes' current observations."""
        self._lanes.check_reset(lanes, seeds)
        if lanes.any():
            self._state[lanes] = self._rules.start(seeds[lanes])
            self._num_steps[lanes] = 0
            self._lanes.begin(lanes)
        return self._rules.observe(self._state)

    def step(self, action: np.ndarray) -> Step:
        """Play one action per lane."""
        action = self._lanes.check_action(action)
        self._state, reward, terminated = self._rules.move(self._state, action)
        self._num_steps += 1
        truncated = (self._num_steps >= self._rules.max_steps) & ~terminated
        self._lanes.end(terminated | truncated)
        return Step(
            observation=self._rules.observe(self._state),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
        )

    def render(self, lane: int) -> np.ndarray:
        """Return the lane's picture in colour, [Y, X, 3] uint8."""
        self._lanes.check_lane(lane)
        return self._rules.picture(self._state[lane])

    def running_episode(self, lane: int) -> EpisodeRecord | None:
        """Return None: a state is drawn directly, without replaying its episode."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all lanes."""
        import torch  # takes a second, which programs that only draw should not wait for

        self._lanes.check_begun()
        return {
            "name": self.spec.name,
            "is_playing": torch.from_numpy(self._lanes.is_playing.copy()),
            "state": torch.from_numpy(self._state.copy()),
            "num_steps": torch.from_numpy(self._num_steps.copy()),
        }

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Restore the saved states. This always succeeds in all lanes."""
        check_same_task(self, state)
        self._state = state["state"].numpy().copy()
        self._num_steps = state["num_steps"].numpy().copy()
        is_playing = state["is_playing"].numpy()
        self._lanes.begin(is_playing)
        self._lanes.end(~is_playing)
        return np.ones(self.num_lanes, bool)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def random_words(seeds: np.ndarray, count: int) -> np.ndarray:
    """Return `count` random 64-bit words for each seed, [N, count] uint64, by SplitMix64."""
    step = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    word = _mix(seeds.astype(np.uint64))[:, None] + step
    return _mix(word)


def _mix(word: np.ndarray) -> np.ndarray:
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
