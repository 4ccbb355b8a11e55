"""Small whole runs: trained, stopped at a chosen step, resumed, and compared bit for bit.

Also interrupts whole queues of runs.
"""

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from agent57.config import Config
from agent57.runtime import run
from agent57.runtime.session import Session
from agent57.storage.checkpoint import CheckpointStore
from tests.small import changed, small_config

# Fields that may differ between two equal runs.
CLOCK = ("seconds", "frames_per_second", "memory/resident_bytes")


def run_config(task: str, frames: int, **sections: dict[str, Any]) -> Config:
    """Return the settings of a small agent on a task, with metrics every few steps."""
    settings = {"frames": frames, "threads": 1, "log_frames": 30, "checkpoint_seconds": 1e6}
    config = small_config(env={"name": task}, run=settings, learner={"target_period": 7})
    return changed(config, **sections)


def train(config: Config, path: Path) -> str:
    """Train a new run to its end; return its output."""
    said = io.StringIO()
    run.start(config, path, Console(file=said, width=1000))
    return said.getvalue()


def resume(path: Path, frames: int | None = None) -> str:
    """Resume a run and train it to its end; return its output."""
    said = io.StringIO()
    run.resume(path, frames, Console(file=said, width=1000))
    return said.getvalue()


def stop_after(num_ticks: int, patch: pytest.MonkeyPatch) -> None:
    """Let every session end after some steps, as if by Ctrl-C."""

    class Sitting(Session):
        num_left = num_ticks

        def tick(self, parts: Any) -> None:
            super().tick(parts)
            self.num_left -= 1
            self.is_stopping = self.num_left == 0

    patch.setattr(run, "Session", Sitting)


def at_tick(num_ticks: int, patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let every session call `act` after some steps, before its other work."""

    class Sitting(Session):
        num_left = num_ticks

        def tick(self, parts: Any) -> None:
            self.num_left -= 1
            if self.num_left == 0:
                act()
            super().tick(parts)

    patch.setattr(run, "Session", Sitting)


def interrupted(config: Config, path: Path, sittings: list[int], patch: pytest.MonkeyPatch) -> None:
    """Train a run that is stopped after each number of steps, then resume it to its end."""
    for index, num_ticks in enumerate(sittings):
        with patch.context() as patched:
            stop_after(num_ticks, patched)
            resume(path) if index else train(config, path)
    resume(path)


@contextmanager
def interrupted_when(is_time: Callable[[], bool]) -> Iterator[None]:
    """Send this process SIGTERM as soon as it is time, or after two minutes."""
    is_over = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + 120
        while not is_time() and time.monotonic() < deadline and not is_over.wait(0.01):
            continue
        if not is_over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def lines(path: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a journal."""
    return [json.loads(line) for line in (path / name).read_text().splitlines()]


def result(path: Path) -> dict[str, Any]:
    """Return everything that a run leaves behind, except times."""
    checkpoint = CheckpointStore(path / "checkpoints", keep=9).load()
    assert checkpoint is not None
    assert not checkpoint.damaged
    journal = checkpoint.state.pop("journal")
    checkpoint.state.pop("config")
    metrics = lines(path, "metrics.jsonl")
    for row in (*metrics, journal["latest"]):
        for name in CLOCK:
            row.pop(name, None)
    frames, _ = journal["last_line"]
    kept = {name: journal[name] for name in ("sums", "counts", "recent", "latest")}
    return {
        "state": checkpoint.state,
        "journal": {**kept, "frames": frames},
        "blocks": dict(live(checkpoint)),
        "metrics": metrics,
        "episodes": (path / "episodes.jsonl").read_text(),
    }


def live(checkpoint: Any) -> list[tuple[int, bytes]]:
    """Return the blocks that the replay held."""
    oldest = checkpoint.state["parts"]["replay"]["store"]["oldest_id"]
    return [(key, message) for key, message in checkpoint.blocks if key >= oldest]


def difference(first: Any, second: Any, place: str = "") -> list[str]:
    """Return the places where two results differ, bit for bit."""
    if isinstance(first, torch.Tensor):
        is_same = isinstance(second, torch.Tensor) and torch.equal(first, second)
        return [] if is_same else [place]
    if isinstance(first, dict) and isinstance(second, dict):
        if first.keys() != second.keys():
            return [place]
        return [d for k in first for d in difference(first[k], second[k], f"{place}/{k}")]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = enumerate(zip(first, second, strict=True))
        return [d for i, (a, b) in pairs for d in difference(a, b, f"{place}/{i}")]
    return [] if first == second else [place]
