"""Train on an environment of your own: any Gymnasium class with discrete actions.

The observation is a Dict. The agent sees all of it: images go to convolutions, and numbers join
their output.

python examples/own_environment.py [FRAMES]
"""

import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import agent57


class Corridor(gymnasium.Env):
    """Walk to the end of a corridor. The first observation tells its length."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        map=spaces.Box(0, 1, (3, 12), np.uint8),
        goal=spaces.Box(0, 1, (1,), np.float32),
    )

    def __init__(self, longest: int = 12) -> None:
        self._longest = longest
        self._cell = self._goal = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        self._cell, self._goal = 0, int(self.np_random.integers(3, self._longest))
        return self._look(), {}

    def step(self, action: int) -> tuple[dict, float, bool, bool, dict]:
        self._cell = int(np.clip(self._cell + (1 if action else -1), 0, self._goal))
        is_there = self._cell == self._goal
        return self._look(), float(is_there), is_there, False, {}

    def _look(self) -> dict[str, np.ndarray]:
        cells = np.zeros((3, 12), np.uint8)
        cells[1, self._cell] = 1
        return {"map": cells, "goal": np.array([self._goal / 12], np.float32)}


def main(frames: int = 20_000, out: str = "runs/example-corridor", scale: str = "tiny") -> float:
    """Train on the class; return the mean return."""
    run = agent57.train(
        env=Corridor,
        env_kwargs={"longest": 10},
        env_options={"max_episode_frames": 40},
        scale=scale,
        frames=frames,
        out=out,
        on_metrics=lambda row: row.get("evaluator/return", 0.0) >= 0.99,  # stop when solved
    )
    score = run.evaluate(episodes=20)["return_mean"]
    print(f"mean return: {score:.2f}")
    return float(score)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
