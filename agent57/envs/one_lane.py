"""One lane of a task as an ordinary Gymnasium environment, with the agent's view of it."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from agent57.config import EnvConfig
from agent57.envs.make import make_env
from agent57.envs.spec import MAX_SEED

ALL = np.ones(1, bool)


class OneLane(gymnasium.Env[np.ndarray, np.int64]):
    """A task with a run's preprocessing: observations as the policy takes them, raw rewards."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}
    render_mode = "rgb_array"

    def __init__(self, config: EnvConfig) -> None:
        self._lanes = make_env(config, 1)
        task = self._lanes.spec
        low, high = (-np.inf, np.inf) if task.observation_dtype == "float32" else (0, 255)
        self.observation_space = spaces.Box(
            low, high, task.observation_shape, np.dtype(task.observation_dtype).type
        )
        self.action_space = spaces.Discrete(task.num_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; the same seed and actions give the same episode."""
        super().reset(seed=seed)
        number = int(self.np_random.integers(MAX_SEED)) if seed is None else seed % MAX_SEED
        return self._lanes.reset(ALL, np.array([number]))[0].copy(), {}

    def step(self, action: int | np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one action."""
        step = self._lanes.step(np.array([int(action)]))
        reward, terminated = float(step.reward[0]), bool(step.terminated[0])
        return step.observation[0].copy(), reward, terminated, bool(step.truncated[0]), {}

    def render(self) -> np.ndarray:
        """Return the picture in colour, [Y, X, 3] uint8."""
        return self._lanes.render(0)

    def close(self) -> None:
        """Release the task."""
        self._lanes.close()
