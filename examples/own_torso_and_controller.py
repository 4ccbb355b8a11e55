"""Bring a torso and a controller of your own: a small MLP, and Thompson sampling over arms.

python examples/own_torso_and_controller.py [FRAMES]
"""

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

import agent57  # before torch, so that idle threads sleep

if TYPE_CHECKING:
    from torch import nn

    from agent57.config import ControllerConfig

WINDOW = 100  # episodes that a controller remembers


def make_torso(shape: tuple[int, ...]) -> "nn.Module":
    """Two dense layers, from observations [N, *shape] to features [N, 64]."""
    from torch import nn

    first = nn.Linear(int(np.prod(shape)), 64)
    return nn.Sequential(nn.Flatten(), first, nn.SiLU(), nn.Linear(64, 64), nn.SiLU())


class Thompson:
    """Draws a plausible mean return of each arm, and plays the arm whose draw is highest."""

    def __init__(
        self, config: "ControllerConfig", num_arms: int, lane: int, rng: np.random.Generator
    ) -> None:
        self._num_arms, self._rng = num_arms, rng
        self._episodes: deque[tuple[int, float]] = deque(maxlen=WINDOW)

    def select(self) -> int:
        counts, means = self.statistics()
        returns = [episode_return for _, episode_return in self._episodes]
        spread = float(np.std(returns)) + 1e-3 if returns else 1.0
        draws = self._rng.normal(means, spread / np.sqrt(np.maximum(counts, 1)))
        return int(np.argmax(np.where(counts > 0, draws, np.inf)))  # arms that wait come first

    def observe(self, arm: int, episode_return: float) -> None:
        self._episodes.append((arm, episode_return))

    def best(self) -> int:
        counts, means = self.statistics()
        return int(np.argmax(np.where(counts > 0, means, -np.inf)))

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        counts, sums = np.zeros(self._num_arms), np.zeros(self._num_arms)
        for arm, episode_return in self._episodes:
            counts[arm] += 1
            sums[arm] += episode_return
        return counts, sums / np.maximum(counts, 1)

    def state_dict(self) -> dict[str, Any]:
        return {"episodes": list(self._episodes), "rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._episodes = deque(map(tuple, state["episodes"]), maxlen=WINDOW)
        self._rng.bit_generator.state = state["rng"]


agent57.register_torso("mlp", make_torso)
agent57.register_controller("thompson", Thompson)


def main(frames: int = 50_000, out: str = "runs/example-torso", scale: str = "tiny") -> float:
    """Train CartPole with both parts; the mean return."""
    run = agent57.train(
        env="CartPole-v1",
        scale=scale,
        frames=frames,
        out=out,
        network={"own_torso": "mlp"},
        controller={"own": "thompson"},
    )
    score = run.evaluate(episodes=20)["return_mean"]
    print(f"mean return: {score:.1f}")
    return float(score)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
