"""A queue of training runs, on this machine or on a cluster. It survives any interruption.

Each job is a process of `agent57 train --config` with its own folder. The queue resumes a job that
had begun and leaves a finished job alone, so the queue can be started again at any time. It prints
nothing: it calls `watch` with its progress.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Protocol

from agent57.config import Config, ConfigError, require, to_dict
from agent57.precision import keep_precision
from agent57.presets import difference
from agent57.runtime.run import STOPPED, RunFailed
from agent57.storage.checkpoint import newest_counters
from agent57.storage.files import write_atomic
from agent57.storage.folder import CHECKPOINTS, CONFIG_FILE, read_config

FINISHED_FILE = "finished"
POLL_SECONDS = 0.5
MAX_LOSSES = 5  # number of machines that one run may lose
# Fields that may change between two parts of a run; `run.kind` has no effect on training.
FREE_FIELDS = ("run.frames", "run.threads", "run.device", "run.kind")


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to train."""

    name: str
    folder: Path
    config: Config

    @property
    def frames(self) -> int:
        """Frames to train for."""
        return self.config.run.frames

    @property
    def log(self) -> Path:
        """The file that receives the output of this job's processes."""
        return self._beside("log.txt")

    @property
    def settings(self) -> Path:
        """The file from which a new run takes its configuration."""
        return self._beside(CONFIG_FILE)

    def _beside(self, name: str) -> Path:
        return self.folder.parent / f"{self.folder.name}.{name}"

    @property
    def is_finished(self) -> bool:
        """Whether the run has reached its frames, according to its marker file."""
        try:
            return int((self.folder / FINISHED_FILE).read_text() or self.frames) >= self.frames
        except (OSError, ValueError):
            return False

    def frames_done(self) -> int:
        """Return the frames of the latest line of metrics."""
        try:
            with (self.folder / "metrics.jsonl").open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 16_384))
                lines = file.read().splitlines()
            return int(json.loads(lines[-1])["frames"]) if lines else 0
        except (OSError, ValueError, KeyError):
            return 0

    def check_begun(self) -> None:
        """Refuse a run that was begun with other settings; more frames are allowed."""
        if not self.folder.exists():
            return
        try:
            begun = read_config(self.folder)
        except ConfigError as error:
            raise ConfigError(f"{error}: remove {self.folder}, or give another folder") from None
        changed = [
            f"{name} {theirs}, now {ours}"
            for name, (ours, theirs) in difference(
                keep_precision(self.config, begun), begun
            ).items()
            if name not in FREE_FIELDS
        ]
        require(
            not changed,
            f"{self.folder} was begun with other settings ({'; '.join(changed)}): "
            f"remove it, or give another folder",
        )

    def command(self) -> list[str]:
        """Return the command that begins the run, or resumes it after an interruption."""
        program = [sys.executable, "-m", "agent57"]
        if any((self.folder / CHECKPOINTS).glob("[0-9]*.json")):
            return [*program, "resume", "--trust", *self._raised_frames(), str(self.folder)]
        if (self.folder / CONFIG_FILE).exists():  # interrupted before its first checkpoint
            shutil.rmtree(self.folder)
        settings = ("--config", str(self.settings), "--trust")  # this program wrote the file
        return [*program, "train", *settings, "--out", str(self.folder)]

    def _raised_frames(self) -> tuple[str, ...]:
        try:
            begun_for = json.loads((self.folder / CONFIG_FILE).read_text())["run"]["frames"]
        except (OSError, ValueError, KeyError):
            return ()  # `agent57 resume` will say what is wrong
        return ("--frames", str(self.frames)) if begun_for < self.frames else ()


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a queue."""

    rows: list[tuple[str, str, int, int]]  # each job's name, state, frames done, frames in total
    num_finished: int
    share: float  # of all frames that are done
    seconds_left: float | None  # None before the first frames


class JobView(Protocol):
    """Shows a user the progress of runs and of their scoring."""

    def show(self, progress: Progress) -> None:
        """Show the progress of a queue."""
        ...

    def tell(self, text: str) -> None:
        """Show a line about the work after training."""
        ...


class Silence:
    """Shows nothing."""

    def show(self, progress: Progress) -> None:
        """Show nothing."""

    def tell(self, text: str) -> None:
        """Show nothing."""


SILENT = Silence()


def share_cores(num_parallel: int, num_runs: int) -> tuple[int, int]:
    """Return the number of runs at a time (0: one per core), and the threads of each run."""
    cores = os.cpu_count() or 1
    num_parallel = num_parallel or cores
    return num_parallel, max(1, cores // max(1, min(num_parallel, num_runs)))


def with_threads(config: Config, num_threads: int) -> Config:
    """Return the configuration with a number of threads for torch."""
    return replace(config, run=replace(config.run, threads=num_threads))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Treat SIGTERM like Ctrl-C, so that running jobs are told to save themselves."""
    raise KeyboardInterrupt


class Running(Protocol):
    """The part of `subprocess.Popen` that a queue uses."""

    returncode: int | None

    def poll(self) -> int | None:
        """Return the exit code; None while the command runs."""
        ...

    def terminate(self) -> None:
        """Ask the command to save itself and end."""
        ...

    def wait(self) -> int:
        """Wait for the end of the command."""
        ...


def launch_here(command: list[str], log: Path) -> Running:
    """Start a command on this machine; its output goes to the end of `log`."""
    with log.open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


@dataclass
class JobQueue:
    """Runs jobs, `num_parallel` at a time, each as a command that `launch` starts.

    The first failure ends the queue. With `keep_going` it goes on, and `failures` lists all
    failures. A run that is lost with its machine goes on elsewhere, up to `MAX_LOSSES` times.
    """

    jobs: list[Job]
    num_parallel: int
    watch: Callable[[Progress], None] = lambda progress: None
    on_finished: Callable[[Job], None] = lambda job: None
    keep_going: bool = False
    launch: Callable[[list[str], Path], Running] = launch_here
    failures: list[str] = field(default_factory=list)
    _waiting: list[Job] = field(default_factory=list)
    _running: dict[str, Running] = field(default_factory=dict)
    _losses: Counter[str] = field(default_factory=Counter)
    _started: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Run all jobs to their end; raise `RunFailed` with the first failure."""
        self._waiting = [job for job in self.jobs if not job.is_finished]
        previous = signal.signal(signal.SIGTERM, _interrupt)
        frames_before = sum(job.frames_done() for job in self.jobs)
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < self.num_parallel:
                    self._start(self._waiting.pop(0))
                time.sleep(POLL_SECONDS)
                self._collect()
                self.watch(self._progress(frames_before))
        finally:
            self._stop()
            signal.signal(signal.SIGTERM, previous)

    def _start(self, job: Job) -> None:
        command = job.command()
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(job.settings, json.dumps(to_dict(job.config), indent=2).encode())
        self._running[job.name] = self.launch(command, job.log)

    def _collect(self) -> None:
        """Handle the processes that have ended: finished, failed or lost with their machine."""
        for job in self.jobs:
            process = self._running.get(job.name)
            if process is None or process.poll() is None:
                continue
            del self._running[job.name]
            if getattr(process, "is_lost", False) and self._losses[job.name] < MAX_LOSSES:
                self._losses[job.name] += 1
                self._waiting.append(job)
                continue
            frames = newest_counters(job.folder / CHECKPOINTS).get("frames", 0)
            if process.returncode == 0 and frames >= job.frames:
                (job.folder / FINISHED_FILE).write_text(str(job.frames))
                self.on_finished(job)
                continue
            lines = job.log.read_text(errors="replace").strip().splitlines()
            reason = lines[-1] if lines else f"exit code {process.returncode}"
            if process.returncode in (0, STOPPED):
                reason = "it was told to stop; start the same command again to continue"
            self.failures.append(f"{job.name} failed: {reason} (the whole log: {job.log})")
            if not self.keep_going:
                raise RunFailed(self.failures[0])

    def _stop(self) -> None:
        """Ask the running jobs to save themselves, and wait for them."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait()
        self._running.clear()

    def _progress(self, frames_before: int) -> Progress:
        rows = []
        for job in self.jobs:
            state = "finished" if job.is_finished else "waiting"
            if job.name in self._running:
                state = "running"
            rows.append((job.name, state, job.frames_done(), job.frames))
        done, total = sum(row[2] for row in rows), sum(row[3] for row in rows)
        rate = (done - frames_before) / (time.monotonic() - self._started)
        return Progress(
            rows=rows,
            num_finished=sum(state == "finished" for _, state, _, _ in rows),
            share=min(1.0, done / total),
            seconds_left=max(0, total - done) / rate if rate > 0 else None,
        )
