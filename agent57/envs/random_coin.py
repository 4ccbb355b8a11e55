"""The paper's random coin (section 4.2): an empty room, an agent, and a coin that ends the episode.

Its Gymnasium id is agent57.envs:agent57/RandomCoin-v0.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from agent57.envs.rules import random_words
from agent57.envs.spec import MAX_SEED
from agent57.types import EnvSpec

SIZE = 15  # cells per side of the room
MAX_STEPS = 200
CELL = 8  # pixels per side of a cell in the picture
ROW_MOVES = np.array([-1, 1, 0, 0])  # up, down, left, right
COLUMN_MOVES = np.array([0, 0, -1, 1])
FLOOR_COLOUR, COIN_COLOUR, AGENT_COLOUR = (32, 32, 40), (240, 200, 60), (80, 160, 240)


class RandomCoinRules:
    """The rules of the random coin.

    A state is (row, column) of the agent, then of the coin. The observation is a plane for each,
    because the paper does not say what the agent sees (spec 41). Stepping onto the coin earns 1 and
    terminates the episode. Walls stop a move.
    """

    optimal_return = 1.0

    def __init__(self, max_steps: int = MAX_STEPS) -> None:
        self.max_steps = max_steps
        self.spec = EnvSpec(
            name="random_coin",
            kind="grid",
            observation_shape=(2, SIZE, SIZE),
            observation_dtype="uint8",
            num_actions=4,
            frames_per_step=1,
            max_value=1,
            action_names=("up", "down", "left", "right"),
        )

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """Draw two different cells uniformly, for the agent and the coin."""
        word = random_words(seeds, 2)
        num_cells = np.uint64(SIZE * SIZE)
        agent = word[:, 0] % num_cells
        coin = (agent + np.uint64(1) + word[:, 1] % (num_cells - np.uint64(1))) % num_cells
        state = np.stack([agent // SIZE, agent % SIZE, coin // SIZE, coin % SIZE], axis=1)
        return state.astype(np.int64)

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Move the agent one cell up, down, left or right."""
        state = state.copy()
        state[:, 0] = np.clip(state[:, 0] + ROW_MOVES[action], 0, SIZE - 1)
        state[:, 1] = np.clip(state[:, 1] + COLUMN_MOVES[action], 0, SIZE - 1)
        is_on_coin = (state[:, :2] == state[:, 2:]).all(axis=1)
        return state, is_on_coin.astype(np.float32), is_on_coin

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Return the plane of the agent and the plane of the coin."""
        planes = np.zeros((len(state), 2, SIZE, SIZE), np.uint8)
        lane = np.arange(len(state))
        planes[lane, 0, state[:, 0], state[:, 1]] = 1
        planes[lane, 1, state[:, 2], state[:, 3]] = 1
        return planes

    def picture(self, state: np.ndarray) -> np.ndarray:
        """Draw the room from above."""
        cells = np.full((SIZE, SIZE, 3), FLOOR_COLOUR, np.uint8)
        cells[state[2], state[3]] = COIN_COLOUR
        cells[state[0], state[1]] = AGENT_COLOUR
        return cells.repeat(CELL, axis=0).repeat(CELL, axis=1)


class RandomCoin(gymnasium.Env):
    """The random coin as one Gymnasium environment."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._rules = RandomCoinRules()
        self.observation_space = spaces.Box(0, 1, self._rules.spec.observation_shape, np.uint8)
        self.action_space = spaces.Discrete(self._rules.spec.num_actions)
        self._state = self._rules.start(np.zeros(1, np.int64))
        self._num_steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Place the agent and the coin at random."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(MAX_SEED))
        self._state = self._rules.start(np.array([seed]))
        self._num_steps = 0
        return self._rules.observe(self._state)[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:  # noqa: ANN401
        """Move one cell."""
        self._state, reward, terminated = self._rules.move(self._state, np.array([action]))
        self._num_steps += 1
        truncated = self._num_steps >= self._rules.max_steps and not terminated[0]
        observation = self._rules.observe(self._state)[0]
        return observation, float(reward[0]), bool(terminated[0]), bool(truncated), {}

    def render(self) -> Any:  # noqa: ANN401
        """Return the room from above, [Y, X, 3] uint8, if `render_mode` is rgb_array."""
        return self._rules.picture(self._state[0]) if self.render_mode == "rgb_array" else None
