"""Trains agents on many tasks and seeds, and scores them: a queue that survives interruption.

OUT/<task>/<agent>/seed<k>    the runs
OUT/results.json, .csv, report.html
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from agent57.config import Config, ConfigError, require
from agent57.envs.make import check_options
from agent57.experiments.jobs import (
    SILENT,
    Job,
    JobQueue,
    JobView,
    Running,
    launch_here,
    share_cores,
    with_threads,
)
from agent57.experiments.suite_results import Results, suite_results, write_results
from agent57.reports.page import write_report
from agent57.runtime.run import RunFailed
from agent57.scores.published import Reference, suite_games
from agent57.storage.history import METRICS_FILE

SUITES: tuple[Literal["atari57"], Literal["challenging10"]] = ("atari57", "challenging10")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One agent on one task, with a number of seeds."""

    config: Config
    num_seeds: int

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.config.env.name

    @property
    def agent(self) -> str:
        """The name of the preset."""
        return self.config.run.agent

    def folder(self, out: Path, seed: int) -> Path:
        """Return the folder of a run."""
        name = self.task.replace("/", "-").replace(":", "-")
        return out / name / self.agent / f"seed{seed}"


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The runs of a suite."""

    name: str
    scale: str
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        for entry in self.entries:
            require(entry.num_seeds > 0, f"--seeds must be positive, got {entry.num_seeds}")
            check_options(entry.config.env)

    @property
    def num_runs(self) -> int:
        """Number of runs of all entries together."""
        return sum(entry.num_seeds for entry in self.entries)

    def jobs(self, out: Path, num_threads: int) -> list[Job]:
        """Return the runs, ordered by seed, so that a partial suite covers all tasks equally."""
        planned = []
        for seed in range(max(entry.num_seeds for entry in self.entries)):
            for entry in self.entries:
                if seed < entry.num_seeds:
                    config = with_threads(entry.config, num_threads)
                    job = Job(
                        name=f"{entry.task} {entry.agent} seed {seed}",
                        folder=entry.folder(out, seed),
                        config=replace(config, run=replace(config.run, seed=seed)),
                    )
                    planned.append(job)
        return planned


def suite_names(text: str) -> tuple[str, ...]:
    """Return the tasks of `atari57`, `challenging10` or NAME,NAME."""
    for suite in SUITES:
        if text == suite:
            return suite_games(suite)
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    require(bool(names), "name a suite: desk, challenging10, atari57, or NAME,NAME")
    return tuple(dict.fromkeys(names))


def prepare_jobs(
    suite: Suite, out: Path, num_parallel: int, num_threads: int | None = None
) -> tuple[list[Job], int]:
    """Return the runs and how many run at a time; refuse runs begun with other settings.

    If `num_threads`, the threads of each run, is None, the runs share this machine's cores.
    """
    require(num_parallel >= 0, f"--jobs must not be negative, got {num_parallel}")
    if num_threads is None:
        num_parallel, num_threads = share_cores(num_parallel, suite.num_runs)
    jobs = suite.jobs(out, num_threads)
    for job in jobs:
        job.check_begun()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written: {error.strerror}") from None
    return jobs, num_parallel


def train_all(
    jobs: list[Job],
    num_parallel: int,
    view: JobView = SILENT,
    launch: Callable[[list[str], Path], Running] = launch_here,
) -> None:
    """Train all runs to their end; a failed run does not stop the others."""
    queue = JobQueue(jobs, num_parallel, view.show, keep_going=True, launch=launch)
    queue.run()
    if queue.failures:
        others = f" (and {len(queue.failures) - 1} more)" if len(queue.failures) > 1 else ""
        raise RunFailed(queue.failures[0] + others)


def collect(suite: Suite, out: Path, jobs: list[Job], reference: Reference) -> Results:
    """Score the existing runs, and write the results."""
    seeds: dict[str, dict[str, list[Path]]] = {}
    for entry in suite.entries:
        folders = [entry.folder(out, seed) for seed in range(entry.num_seeds)]
        seeds.setdefault(entry.agent, {})[entry.task] = folders
    tasks = tuple(dict.fromkeys(entry.task for entry in suite.entries))
    num_finished = sum(job.is_finished for job in jobs)
    results = suite_results(seeds, tasks, len(jobs), num_finished, reference)
    results = {"suite": suite.name, "scale": suite.scale, **results}
    write_results(out, results)
    if any((job.folder / METRICS_FILE).exists() for job in jobs):
        write_report([out], None)
    return results
