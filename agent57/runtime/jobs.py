"""A queue of training runs over the cores of this machine. It survives any interruption.

Each job is a process of `agent57 train` in a folder of its own. A job that had begun is resumed, a
job that had finished is left alone, so the same queue can be started again at any time.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from agent57.records.folder import CONFIG_FILE
from agent57.records.view import duration
from agent57.runtime.run import RunFailed

FINISHED_FILE = "finished"
LOG_FILE = "log.txt"
POLL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to train."""

    name: str
    folder: Path
    options: tuple[str, ...]  # of `agent57 train`, but for --out and --frames
    frames: int

    @property
    def is_finished(self) -> bool:
        """Whether a process has brought it to its end."""
        return (self.folder / FINISHED_FILE).exists()

    def frames_done(self) -> int:
        """How far it is by its latest line of metrics."""
        try:
            with (self.folder / "metrics.jsonl").open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 16_384))
                lines = file.read().splitlines()
            return int(json.loads(lines[-1])["frames"]) if lines else 0
        except (OSError, ValueError, KeyError):
            return 0

    def command(self) -> list[str]:
        """What to run: a new run, or the one that was interrupted."""
        program = [sys.executable, "-m", "agent57"]
        if any((self.folder / "checkpoints").glob("[0-9]*.json")):
            return [*program, "resume", str(self.folder)]
        if (self.folder / CONFIG_FILE).exists():  # interrupted before its first checkpoint
            shutil.rmtree(self.folder)
        frames = ("--frames", str(self.frames))
        return [*program, "train", *self.options, *frames, "--out", str(self.folder)]


@dataclass
class JobQueue:
    """Runs jobs, `num_parallel` at a time, and shows how far each is."""

    jobs: list[Job]
    num_parallel: int
    console: Console
    on_finished: Callable[[Job], None] = lambda job: None
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Bring all jobs to their end; `RunFailed` names the first that failed."""
        waiting = [job for job in self.jobs if not job.is_finished]
        frames_before = sum(job.frames_done() for job in self.jobs)
        try:
            with Live(console=self.console, refresh_per_second=2, transient=True) as live:
                while waiting or self._running:
                    while waiting and len(self._running) < self.num_parallel:
                        self._start(waiting.pop(0))
                    time.sleep(POLL_SECONDS)
                    self._collect()
                    if self.console.is_terminal:
                        live.update(self._table(frames_before))
        finally:
            self._stop()

    def _start(self, job: Job) -> None:
        command = job.command()
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        log = job.folder.parent / f"{job.folder.name}.{LOG_FILE}"
        with log.open("ab") as output:
            self._running[job.name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def _collect(self) -> None:
        """Take note of the processes that have ended."""
        for job in self.jobs:
            process = self._running.get(job.name)
            if process is None or process.poll() is None:
                continue
            del self._running[job.name]
            if process.returncode != 0:
                log = job.folder.parent / f"{job.folder.name}.{LOG_FILE}"
                lines = log.read_text(errors="replace").strip().splitlines()
                reason = lines[-1] if lines else f"exit code {process.returncode}"
                raise RunFailed(f"{job.name} failed: {reason} (all of it in {log})")
            (job.folder / FINISHED_FILE).touch()
            self.on_finished(job)

    def _stop(self) -> None:
        """Ask what still runs to save itself, and wait for it."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait()
        self._running.clear()

    def _table(self, frames_before: int) -> Table:
        done = sum(job.frames_done() for job in self.jobs)
        total = sum(job.frames for job in self.jobs)
        seconds = time.monotonic() - self._started
        rate = (done - frames_before) / seconds
        left = duration((total - done) / rate) if rate > 0 else "unknown"
        table = Table("run", "state", "frames", title=f"{done / total:.0%}, time left {left}")
        for job in self.jobs:
            state = "finished" if job.is_finished else "waiting"
            if job.name in self._running:
                state = "running"
            table.add_row(job.name, state, f"{job.frames_done():,} / {job.frames:,}")
        return table
