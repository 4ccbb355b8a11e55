"""Run folders with made-up records, for tests of reports and pages."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from agent57.config import to_dict
from agent57.presets import make_config

TRAINED = ("extrinsic", "intrinsic", "inverse_dynamics", "rnd")


def write_run(
    path: Path,
    *,
    env: str = "toy/chain",
    agent: str = "agent57",
    seed: int = 0,
    num_lines: int = 12,
    num_episodes: int = 60,
) -> Path:
    """Write a folder like that of `agent57 train`, without checkpoints."""
    path.mkdir(parents=True)
    config = make_config(agent, "tiny")
    run = replace(config.run, seed=seed)
    config = replace(config, run=run, env=replace(config.env, name=env))
    (path / "config.json").write_text(json.dumps(to_dict(config)))
    rng = np.random.default_rng(seed)
    write_lines(
        path / "metrics.jsonl", [metrics(i, config.family.arms, rng) for i in range(num_lines)]
    )
    write_lines(path / "episodes.jsonl", [episode(i, rng) for i in range(num_episodes)])
    return path


def write_lines(file: Path, rows: list[dict]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def metrics(i: int, num_arms: int, rng: np.random.Generator) -> dict:
    arm = i % num_arms
    names = ["reward", "value"]
    row = {
        "frames": 1000 * (i + 1),
        "steps": 250 * (i + 1),
        "updates": 10 * i,
        "seconds": 2.0 * i,
        "frames_per_second": 500 + 50 * rng.random(),
        "episode/return": i + rng.random(),
        "evaluator/return": i + rng.random(),
        "evaluator/best_arm": arm,
        "evaluator/best_beta": 0.1 * arm,
        "evaluator/best_gamma": 0.9999 - 0.003 * arm,
        "memory/resident_bytes": 5e8 + 1e6 * i,
        "replay/bytes": 1e6 * i,
        "replay/transitions": 250.0 * i,
        "td/mean_abs": rng.random(),
        "priority/mean": rng.random(),
        "priority/max": 1 + rng.random(),
        "curiosity/novelty": 5 * rng.random(),
        "curiosity/modulation": 1 + rng.random(),
        "curiosity/familiar": rng.random(),
        "replay/windows": 10.0 * i,
        "replay/effective_windows": 1 + 9.0 * i,
        "replay/age": 125.0 * i,
        "priority/stored": rng.random(),
        "priority/drawn": rng.random(),
    }
    row |= {f"{name}/{kind}": rng.random() for name in names for kind in TRAINED[:2]}
    row |= {f"loss/{name}": 10 * rng.random() for name in TRAINED}
    row |= {f"gradient_norm/{name}": 100 * rng.random() for name in TRAINED}
    row |= {f"clipped/{name}": rng.random() for name in TRAINED}
    row |= {f"arm_plays/{j}": float((i + 1) * (j + 1) * (j < i + 1)) for j in range(num_arms)}
    row |= {f"arm_return/{j}": i * rng.random() for j in range(num_arms) if j < i + 1}
    row |= {f"td/extrinsic/{j}": rng.random() for j in range(num_arms) if j != i % num_arms}
    return row


def episode(i: int, rng: np.random.Generator) -> dict:
    return {
        "source": "evaluator",
        "phase": "evaluate" if i // 5 % 2 else "train",
        "lane": 0,
        "arm": i % 4,
        "beta": 0.0,
        "gamma": 0.99,
        "frames": 200 * (i + 1),
        "length": 20,
        "return": i / 10 + float(rng.random()),
        "intrinsic_return": 3.0,
    }
