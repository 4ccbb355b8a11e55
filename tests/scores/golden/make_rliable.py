"""Writes rliable.json: the numbers of rliable with which test_aggregate.py compares ours.

Run it by hand, in a separate environment (rliable 1.2.0 needs arch < 8, which fails with pandas 3):

    pip install rliable==1.2.0 'pandas<3' && python tests/scores/golden/make_rliable.py

rliable draws its resamples from numpy's global generator. Here a seeded `Generator` answers these
calls, so that our code can draw the same resamples and get exactly the same intervals.
"""

import json
from pathlib import Path

import numpy as np
from rliable import library, metrics

SEED = 57
NUM_RESAMPLES = 2000
PERCENTILES = (40, 30, 20, 10, 5)
THRESHOLDS = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0]


def draw_from(rng):
    np.random.choice = lambda n, shape, replace: rng.integers(n, size=shape)


def statistics(scores):
    means = scores.mean(0)
    return np.array(
        [
            metrics.aggregate_mean(scores),
            metrics.aggregate_median(scores),
            metrics.aggregate_iqm(scores),
            metrics.aggregate_optimality_gap(scores),
            *(np.percentile(means, p) for p in PERCENTILES),
        ]
    )


def estimates(points, intervals):
    return {"point": points.tolist(), "low": intervals[0].tolist(), "high": intervals[1].tolist()}


def main():
    # Heavy tails, some below random, and ties: 5 runs of 11 games against 3 runs.
    data = np.random.default_rng(0)
    first = np.round(data.lognormal(0.3, 1.2, size=(5, 11)) - 0.3, 2)
    second = np.round(data.lognormal(0.0, 1.2, size=(3, 11)) - 0.3, 2)
    second[:, 0] = first[:3, 0]  # ties

    draw_from(np.random.default_rng(SEED))
    points, intervals = library.get_interval_estimates({"x": first}, statistics, reps=NUM_RESAMPLES)
    draw_from(np.random.default_rng(SEED))
    profile, bands = library.create_performance_profile(
        {"x": first}, THRESHOLDS, reps=NUM_RESAMPLES
    )
    draw_from(np.random.default_rng(SEED))
    improvement, spread = library.get_interval_estimates(
        {"x": [first, second]},
        lambda x, y: np.array([metrics.probability_of_improvement(x, y)]),
        reps=NUM_RESAMPLES,
    )
    golden = {
        "seed": SEED,
        "num_resamples": NUM_RESAMPLES,
        "first": first.tolist(),
        "second": second.tolist(),
        "names": ["mean", "median", "iqm", "optimality_gap"]
        + [f"percentile_{p}" for p in PERCENTILES],
        "statistics": estimates(points["x"], intervals["x"]),
        "thresholds": THRESHOLDS,
        "profile": estimates(profile["x"], bands["x"]),
        "improvement": estimates(improvement["x"], spread["x"]),
    }
    path = Path(__file__).with_name("rliable.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
