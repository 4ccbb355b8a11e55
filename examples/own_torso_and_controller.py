"""Define your own torso and controller: a small MLP, and Thompson sampling over arms.

python examples/own_torso_and_controller.py [FRAMES]
"""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import agent57  # before torch, so that idle threads sleep

if TYPE_CHECKING:
    from torch import nn

    from agent57.config import ControllerConfig


def make_torso(shape: tuple[int, ...]) -> "nn.Module":
    """Return two dense layers, from observations [N, *shape] to features [N, 64]."""
    from torch import nn

    first = nn.Linear(int(np.prod(shape)), 64)
    return nn.Sequential(nn.Flatten(), first, nn.SiLU(), nn.Linear(64, 64), nn.SiLU())


class Thompson:
    """Draws a plausible mean return for each arm, and plays the arm with the highest draw."""

    def __init__(
        self, config: "ControllerConfig", num_arms: int, lane: int, rng: np.random.Generator
    ) -> None:
        self._rng = rng
        self._sums = np.zeros((3, num_arms))  # sums of plays, returns and squared returns

    def select(self) -> int:
        plays, means = self.statistics()
        spread = np.sqrt(np.maximum(self._sums[2] / np.maximum(plays, 1) - means**2, 0)) + 1e-3
        draws = self._rng.normal(means, spread / np.sqrt(np.maximum(plays, 1)))
        return int(np.argmax(np.where(plays > 0, draws, np.inf)))  # unplayed arms come first

    def observe(self, arm: int, episode_return: float) -> None:
        self._sums[:, arm] += [1, episode_return, episode_return**2]

    def best(self) -> int:
        return int(np.argmax(np.where(self._sums[0] > 0, self.statistics()[1], -np.inf)))

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        plays, returns, _ = self._sums
        return plays, np.divide(returns, plays, out=np.zeros_like(plays), where=plays > 0)

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self._sums.tolist(), "rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums = np.array(state["sums"])
        self._rng.bit_generator.state = state["rng"]


agent57.register_torso("mlp", make_torso)
agent57.register_controller("thompson", Thompson)


def main(frames: int = 50_000, out: str = "runs/example-torso", scale: str = "tiny") -> float:
    """Train CartPole with both parts; return the mean return."""
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
