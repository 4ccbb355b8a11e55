"""Measures memory of a run at laptop scale: growth in training, and peak with a full replay.

    python -m agent57.bench.memory train --minutes 30 --figure docs/memory.png
    python -m agent57.bench.memory full

`train` is `agent57 train`, except that it writes metrics more often. Growth is the growth of the
resident memory minus the bytes that the replay reports. `full` fills the replay with copies of
blocks that the untrained agent plays. Then the agent plays, learns from full batches, evaluates and
writes a checkpoint as usual.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

from agent57.allocator import keep_freed_memory
from agent57.bench.checkpointing import fill, played, repeated
from agent57.bench.script import options_of, show, tell
from agent57.config import Config
from agent57.presets import make_config
from agent57.runtime.parts import Parts, build
from agent57.runtime.saving import Saver
from agent57.storage.folder import RunFolder
from agent57.storage.journal import Journal, resident_bytes

LIMIT_GB = 6.0
LOG_FRAMES = 4000


def train(game: str, minutes: float, out: Path) -> None:
    """Train as a user would, then press Ctrl-C."""
    options = {"--env": game, "--scale": "laptop", "--frames": 10**12, "--out": out}
    options["--run.log-frames"] = LOG_FRAMES
    words = [str(word) for option in options.items() for word in option]
    process = subprocess.Popen([sys.executable, "-m", "agent57", "train", *words])
    try:
        process.wait(60 * minutes)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait()
    assert process.returncode == 0, "training failed"


def growth(out: Path, warm_up_minutes: float, figure: Path) -> dict[str, Any]:
    """Draw resident memory over training; return its growth minus that of the replay."""
    lines = (out / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    names = ("seconds", "memory/resident_bytes", "replay/bytes")
    seconds, resident, replay = (np.array([row[name] for row in rows]) for name in names)
    minutes, resident, replay = seconds / 60, resident / 1e6, replay / 1e6
    beyond, is_late = resident - replay, minutes >= warm_up_minutes
    assert is_late.sum() > 1, "too short: fewer than two lines of metrics after the warm-up"
    slope, start = np.polyfit(minutes[is_late], beyond[is_late], 1)

    drawing, axis = plt.subplots(figsize=(7, 3.6))
    axis.plot(minutes, resident, label="resident memory of the process")
    axis.plot(minutes, beyond, label="without the replay")
    axis.plot(minutes, replay, label="replay")
    axis.plot(minutes[is_late], start + slope * minutes[is_late], "k:", linewidth=1)
    axis.set_xlabel("minutes of training")
    axis.set_ylabel("MB")
    axis.set_ylim(bottom=0)
    axis.set_title(f"{slope:+.2f} MB a minute beyond the replay, after {warm_up_minutes:g} minutes")
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(figure, dpi=130, bbox_inches="tight")
    return {
        "minutes": float(minutes[-1]),
        "frames": rows[-1]["frames"],
        "updates": rows[-1]["updates"],
        "resident_megabytes_after_warm_up": float(resident[is_late][0]),
        "resident_megabytes_at_the_end": float(resident[-1]),
        "replay_megabytes_at_the_end": float(replay[-1]),
        "beyond_the_replay_after_warm_up": float(beyond[is_late][0]),
        "beyond_the_replay_at_the_end": float(beyond[-1]),
        "beyond_the_replay_highest": float(beyond[is_late].max()),
        "growth_megabytes_a_minute": float(slope),
    }


def update(config: Config, parts: Parts) -> None:
    """Make one update."""
    batch = parts.replay.sample(config.learner.batch_size)
    parts.replay.reprioritise(batch.key, parts.learner.update(batch).priorities)


def full(game: str, num_updates: int) -> dict[str, Any]:
    """Return the peak memory of the process with a full replay."""
    config = make_config("agent57", "laptop")
    config = replace(config, env=replace(config.env, name=game))
    keep_freed_memory()
    torch.set_num_threads(config.run.threads or os.cpu_count() or 1)
    parts = build(config, torch.device("cpu"))
    period = config.sequence.replay_period
    fill(parts, repeated(played(parts, 6 * period), period), config.replay.capacity)
    for _ in range(num_updates):
        for block in played(parts, period):
            parts.replay.add(block)
        for _ in range(period):
            parts.evaluator.step(parts.actor.num_frames)
        update(config, parts)
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder.create(Path(path) / "run", config)
        journal = Journal(folder, config.run.log_frames)
        Saver(config, folder, parts, journal, tell).save_last()
        journal.close()
        folder.close()
    memories = config.actor.lanes * config.curiosity.memory_size * config.network.embedding_size * 4
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "game": game,
        "transitions": parts.replay.num_transitions,
        "batch": f"{config.learner.batch_size} x {config.sequence.window_length}",
        "updates": parts.learner.num_updates,
        "replay_megabytes": parts.replay.num_bytes / 1e6,
        "episodic_memories_megabytes_if_full": memories / 1e6,
        "resident_megabytes": (resident_bytes() or 0) / 1e6,
        "peak_megabytes": peak / 1e6,
        "peak_of_limit": f"{peak / 1e9:.2f} of {LIMIT_GB:g} GB",
    }


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("what", choices=["train", "full"])
    parser.add_argument("--game", default="pong")
    parser.add_argument("--minutes", type=float, default=30.0, help="of training")
    parser.add_argument("--warm-up", type=float, default=5.0, help="minutes before growth counts")
    parser.add_argument("--out", type=Path, help="keep the run of training here")
    parser.add_argument("--figure", type=Path, default=Path("docs/memory.png"))
    parser.add_argument("--updates", type=int, default=14, help="with the replay full")
    arguments = parser.parse_args()
    if arguments.what == "full":
        figures = full(arguments.game, arguments.updates)
    else:
        with tempfile.TemporaryDirectory() as path:
            out = arguments.out or Path(path) / "run"
            train(arguments.game, arguments.minutes, out)
            figures = growth(out, arguments.warm_up, arguments.figure)
    show(figures)


if __name__ == "__main__":
    main()
