"""Compare two agents on one task: mean return over seeds, with a bootstrap interval.

python examples/compare_agents.py [FRAMES]
"""

import sys

import numpy as np

import agent57


def interval(returns: list[float], num_draws: int = 2000) -> tuple[float, float]:
    """Return the middle 95 % of the means of resampled seeds."""
    rng = np.random.default_rng(0)
    draws = rng.choice(returns, size=(num_draws, len(returns))).mean(axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def main(
    frames: int = 100_000,
    out: str = "runs/example-compare",
    scale: str = "tiny",
    num_seeds: int = 3,
) -> dict[str, list[float]]:
    """Train each agent with each seed; return the mean return of each run."""
    returns: dict[str, list[float]] = {"agent57": [], "r2d2": []}
    for agent, scores in returns.items():
        for seed in range(num_seeds):
            run = agent57.train(
                env="toy/chain", agent=agent, scale=scale, frames=frames, seed=seed,
                out=f"{out}/{agent}-{seed}", view="plain",
            )  # fmt: skip
            scores.append(run.evaluate(episodes=20)["return_mean"])
        low, high = interval(scores)
        print(f"{agent}: {np.mean(scores):.2f} (95 % interval of {num_seeds} seeds: "
              f"{low:.2f} to {high:.2f})")  # fmt: skip
    return returns


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
