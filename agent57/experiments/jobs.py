"""A queue of training runs over the cores of this machine. It survives any interruption.

Each job is a process of `agent57 train` in a folder of its own. A job that had begun is resumed, a
job that had finished is left alone, so the same queue can be started again at any time.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from agent57.runtime.run import STOPPED, RunFailed
from agent57.storage.checkpoint import newest_counters
from agent57.storage.folder import CHECKPOINTS, CONFIG_FILE
from agent57.terminal.live import duration

FINISHED_FILE = "finished"
LOG_FILE = "log.txt"
POLL_SECONDS = 0.5
LINE_SECONDS = 60.0  # between lines where there is no terminal
MAX_ROWS = 20  # of the live table; longer queues show what runs


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to train."""

    name: str
    folder: Path
    options: tuple[str, ...]  # of `agent57 train`, but for --out and --frames
    frames: int

    @property
    def is_finished(self) -> bool:
        """Whether a process has brought it to its end: to these frames, or to more."""
        marker = self.folder / FINISHED_FILE
        return marker.exists() and int(marker.read_text() or self.frames) >= self.frames

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
        if any((self.folder / CHECKPOINTS).glob("[0-9]*.json")):
            return [*program, "resume", *self._raised_frames(), str(self.folder)]
        if (self.folder / CONFIG_FILE).exists():  # interrupted before its first checkpoint
            shutil.rmtree(self.folder)
        frames = ("--frames", str(self.frames))
        return [*program, "train", *self.options, *frames, "--out", str(self.folder)]

    def _raised_frames(self) -> tuple[str, ...]:
        try:
            begun_for = json.loads((self.folder / CONFIG_FILE).read_text())["run"]["frames"]
        except (OSError, ValueError, KeyError):
            return ()  # resuming says what is wrong with it
        return ("--frames", str(self.frames)) if begun_for < self.frames else ()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Take SIGTERM for Ctrl-C: the runs are told to save themselves."""
    raise KeyboardInterrupt


@dataclass
class JobQueue:
    """Runs jobs, `num_parallel` at a time, and shows how far each is.

    The first failure ends it, unless it is to `keep_going`: then `failures` says what went wrong.
    """

    jobs: list[Job]
    num_parallel: int
    console: Console
    on_finished: Callable[[Job], None] = lambda job: None
    keep_going: bool = False
    failures: list[str] = field(default_factory=list)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _started: float = field(default_factory=time.monotonic)
    _last_line: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Bring all jobs to their end; `RunFailed` names the first that failed."""
        waiting = [job for job in self.jobs if not job.is_finished]
        previous = signal.signal(signal.SIGTERM, _interrupt)
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
                    elif time.monotonic() - self._last_line > LINE_SECONDS:
                        self._last_line = time.monotonic()
                        self.console.print(self._progress(frames_before), highlight=False)
        finally:
            self._stop()
            signal.signal(signal.SIGTERM, previous)

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
            log = job.folder.parent / f"{job.folder.name}.{LOG_FILE}"
            frames = newest_counters(job.folder / CHECKPOINTS).get("frames", 0)
            if process.returncode == 0 and frames >= job.frames:
                (job.folder / FINISHED_FILE).write_text(str(job.frames))
                self.on_finished(job)
                continue
            lines = log.read_text(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"exit code {process.returncode}"
            if process.returncode in (0, STOPPED):
                reason = "it was told to stop; start the same command again to go on"
            self.failures.append(f"{job.name} failed: {reason} (all of it in {log})")
            if not self.keep_going:
                raise RunFailed(self.failures[0])

    def _stop(self) -> None:
        """Ask what still runs to save itself, and wait for it."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait()
        self._running.clear()

    def _progress(self, frames_before: int) -> str:
        done = sum(job.frames_done() for job in self.jobs)
        total = sum(job.frames for job in self.jobs)
        rate = (done - frames_before) / (time.monotonic() - self._started)
        left = duration(max(0, total - done) / rate) if rate > 0 else "unknown"
        num_finished = sum(job.is_finished for job in self.jobs)
        runs = f"{num_finished} of {len(self.jobs)} runs finished"
        return f"{min(1, done / total):.0%}, {runs}, time left {left}"

    def _table(self, frames_before: int) -> Table:
        table = Table("run", "state", "frames", title=self._progress(frames_before))
        for job in self.jobs:
            state = "finished" if job.is_finished else "waiting"
            if job.name in self._running:
                state = "running"
            if state == "running" or len(self.jobs) <= MAX_ROWS:
                table.add_row(job.name, state, f"{job.frames_done():,} / {job.frames:,}")
        return table
