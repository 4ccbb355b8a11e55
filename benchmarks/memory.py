"""Measures memory of a run at laptop scale: growth in training, and peak with a full replay.

    python benchmarks/memory.py train --minutes 30 --figure docs/memory.png
    python benchmarks/memory.py full

`train` is `agent57 train`, except that it writes metrics more often. Growth is the growth of the
resident memory minus the bytes that the replay reports. `full` fills the replay with games that the
agent's own actor plays at random, and learns from full batches meanwhile. Then the agent plays,
learns, evaluates and writes a checkpoint as usual.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

mpl.use("Agg")

import matplotlib.pyplot as plt
from figures import show

from agent57.allocator import keep_freed_memory
from agent57.config import Config
from agent57.player import Player
from agent57.presets import make_config
from agent57.runtime.parts import Parts, build
from agent57.runtime.saving import Saver
from agent57.storage.folder import RunFolder
from agent57.storage.journal import Journal, resident_bytes

LIMIT_GB = 6.0
LOG_FRAMES = 4000
REPORTS = 10  # number of printed lines, and of updates, while the replay fills


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


def growth(out: Path, warm_up_minutes: float, figure: Path) -> dict:
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


class Guess(torch.nn.Module):
    """Replaces the value networks by random values and states of the right shapes."""

    def __init__(self, networks: torch.nn.Module) -> None:
        super().__init__()
        self.nets = networks.nets  # the learner's weights are loaded into these
        self._num_actions = networks.num_actions

    def forward(self, prepared, _action, _extrinsic, _intrinsic, _arm, state, run):
        rows, lanes = prepared.shape[:2]
        value = torch.randn(len(state), rows, lanes, self._num_actions)
        return value, torch.randn_like(state).tanh()


class Boredom:
    """Replaces curiosity by random intrinsic rewards, without networks."""

    def __init__(self, curiosity, rng: np.random.Generator) -> None:
        self._curiosity = curiosity
        self._rng = rng

    def __getattr__(self, name: str):
        return getattr(self._curiosity, name)

    def reward(self, prepared: torch.Tensor) -> np.ndarray:
        return self._rng.gamma(1.0, size=len(prepared)).astype(np.float32)


def fill(config: Config, parts: Parts) -> None:
    """Play at random until the replay is full, with a few updates meanwhile."""
    player: Player = parts.actor.player
    value, curiosity = player.networks.value, player.curiosity
    player.networks.value = Guess(value)
    player.curiosity = Boredom(curiosity, np.random.default_rng(0))
    capacity, reported = config.replay.capacity, 0
    slack = (
        config.actor.lanes * config.sequence.window_length
    )  # blocks leave before the last ones fit
    while parts.replay.num_transitions < capacity - slack:
        for block in parts.actor.step()[0]:
            parts.replay.add(block)
        if parts.replay.num_transitions >= capacity * reported / REPORTS:
            reported += 1
            if parts.replay.num_windows >= config.learner.batch_size:
                update(config, parts)
            size = parts.replay.num_bytes / 1e6
            print(
                f"{parts.replay.num_transitions:9,} transitions, replay {size:6.0f} MB, "
                f"process {(resident_bytes() or 0) / 1e6:6.0f} MB",
                flush=True,
            )
    player.networks.value, player.curiosity = value, curiosity


def update(config: Config, parts: Parts) -> None:
    batch = parts.replay.sample(config.learner.batch_size)
    parts.replay.reprioritise(batch.key, parts.learner.update(batch).priorities)


def full(game: str, num_updates: int) -> dict:
    """Return the peak memory of the process with a full replay."""
    config = make_config("agent57", "laptop")
    config = replace(config, env=replace(config.env, name=game))
    keep_freed_memory()
    torch.set_num_threads(config.run.threads or os.cpu_count() or 1)
    parts = build(config, torch.device("cpu"))
    fill(config, parts)
    for _ in range(num_updates):
        for _ in range(config.sequence.replay_period):
            for block in parts.actor.step()[0]:
                parts.replay.add(block)
            parts.evaluator.step(parts.actor.num_frames)
        update(config, parts)
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder.create(Path(path) / "run", config)
        journal = Journal(folder, config.run.log_frames)
        Saver(config, folder, parts, journal, print).save_last()
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
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["train", "full"])
    parser.add_argument("--game", default="pong")
    parser.add_argument("--minutes", type=float, default=30.0, help="of training")
    parser.add_argument("--warm-up", type=float, default=5.0, help="minutes before growth counts")
    parser.add_argument("--out", type=Path, help="keep the run of training here")
    parser.add_argument("--figure", type=Path, default=Path("docs/memory.png"))
    parser.add_argument("--updates", type=int, default=5, help="of usual training, replay full")
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
