"""Define your own intrinsic reward: 1 / sqrt(visits) of a cell, counted in each episode.

python examples/own_intrinsic_reward.py [FRAMES]
"""

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

import agent57  # before torch, so that idle threads sleep

if TYPE_CHECKING:
    from torch import Tensor

    from agent57.types import EnvSpec


class Counts:
    """Counts the observations in each lane's episode; more visits give less reward."""

    def __init__(self, num_lanes: int, spec: "EnvSpec") -> None:
        self._visits: list[Counter[str]] = [Counter() for _ in range(num_lanes)]

    def begin(self, lanes: np.ndarray, observation: "Tensor") -> None:
        for lane in np.flatnonzero(lanes):
            self._visits[lane].clear()
        self._count(observation, lanes)

    def reward(self, observation: "Tensor") -> np.ndarray:
        return 1 / np.sqrt(self._count(observation, np.ones(len(observation), bool)))

    def _count(self, observation: "Tensor", lanes: np.ndarray) -> np.ndarray:
        cells = [row.cpu().numpy().tobytes().hex() for row in observation]
        for lane in np.flatnonzero(lanes):
            self._visits[lane][cells[lane]] += 1
        visits = zip(self._visits, cells, strict=True)
        return np.array([max(1, counter[cell]) for counter, cell in visits])

    def state_dict(self) -> dict[str, Any]:
        return {"visits": [dict(counter) for counter in self._visits]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._visits = [Counter(visits) for visits in state["visits"]]


agent57.register_intrinsic_reward("counts", Counts)


def main(frames: int = 50_000, out: str = "runs/example-counts", scale: str = "tiny") -> float:
    """Train on a chain that needs exploration; return the mean return."""
    run = agent57.train(
        env="toy/chain", scale=scale, frames=frames, out=out, curiosity={"own_reward": "counts"}
    )
    score = run.evaluate(episodes=20)["return_mean"]
    print(f"mean return: {score:.2f} of 1.00")
    return float(score)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
