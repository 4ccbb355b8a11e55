"""Define your own family of arms: two discounts, each with and without curiosity.

python examples/own_family.py [FRAMES]
"""

import sys
from typing import TYPE_CHECKING

import agent57

if TYPE_CHECKING:
    from agent57.config import FamilyConfig


def two_horizons(config: "FamilyConfig") -> list[tuple[float, float]]:
    """Return four arms as (beta, gamma); arm 0 must not be curious."""
    far, near = 0.99, 0.9
    return [(0.0, far), (0.0, near), (config.max_beta, far), (config.max_beta, near)]


agent57.register_family("two horizons", two_horizons)


def main(frames: int = 50_000, out: str = "runs/example-family", scale: str = "tiny") -> float:
    """Train with the four arms; print how often each arm was played, return the mean return."""
    family = {"own": "two horizons", "max_beta": 0.2}
    run = agent57.train(env="CartPole-v1", scale=scale, frames=frames, out=out, family=family)
    played = run.episodes()["arm"]
    for arm, (beta, gamma) in enumerate(two_horizons(run.config.family)):
        print(f"arm {arm} (beta {beta}, gamma {gamma}): {(played == arm).sum()} episodes")
    score = run.evaluate(episodes=20)["return_mean"]
    print(f"mean return: {score:.2f}")
    return float(score)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
