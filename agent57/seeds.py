"""Streams of random numbers, named by the run's seed, a role, a global lane and a counter.

Streams follow the global lane, so 1 x 256 and 16 x 16 lanes give the same experiment. The only
state here is counters.
"""

from enum import IntEnum
from typing import Any

import numpy as np


class Role(IntEnum):
    """The purpose of a stream of random numbers."""

    NETWORKS = 0
    REPLAY = 1
    ACTOR_EPISODES = 2
    ACTOR_ACTIONS = 3
    ACTOR_BANDIT = 4
    EVALUATOR_EPISODES = 5
    EVALUATOR_ACTIONS = 6
    EVALUATOR_BANDIT = 7
    TRIAL_EPISODES = 8  # episodes of a trained policy: `agent57 evaluate` and `agent57.load`
    TRIAL_ACTIONS = 9


def sequence(seed: int, role: Role, *counters: int) -> np.random.SeedSequence:
    """Return the seed sequence of one stream."""
    return np.random.SeedSequence(seed, spawn_key=(int(role), *counters))


def generator(seed: int, role: Role, *counters: int) -> np.random.Generator:
    """Return a generator at the beginning of one stream."""
    return np.random.default_rng(sequence(seed, role, *counters))


class LaneUniforms:
    """Draws uniform numbers [E, 2] for each step, from one stream per lane."""

    PAGE = 1024  # steps drawn at once

    def __init__(self, seed: int, role: Role, first_lane: int, num_lanes: int) -> None:
        self._seed = seed
        self._role = role
        self._lanes = range(first_lane, first_lane + num_lanes)
        self._num_drawn = 0
        self._page = np.empty((num_lanes, self.PAGE, 2))

    def next(self) -> np.ndarray:
        """Return the next two numbers in [0, 1) of each lane."""
        page, row = divmod(self._num_drawn, self.PAGE)
        if row == 0:
            self._draw(page)
        self._num_drawn += 1
        return self._page[:, row]

    def _draw(self, page: int) -> None:
        for i, lane in enumerate(self._lanes):
            self._page[i] = generator(self._seed, self._role, lane, page).random((self.PAGE, 2))

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the streams."""
        return {"num_drawn": self._num_drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self._num_drawn = int(state["num_drawn"])
        page, row = divmod(self._num_drawn, self.PAGE)
        if row:
            self._draw(page)
