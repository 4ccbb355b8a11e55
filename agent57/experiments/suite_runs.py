"""Trains agents on many games and seeds, and scores them: a queue that survives interruption.

OUT/<game>/<agent>/seed<k>    the runs
OUT/suite.json                what was asked for
OUT/results.json, .csv, report.html
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from agent57.config import ConfigError, EnvConfig, require
from agent57.envs.make import check_env
from agent57.experiments.jobs import Job, JobQueue
from agent57.experiments.suite_results import Results, suite_results, write_results
from agent57.presets import DEFAULT_FRAMES
from agent57.reports.page import write_report
from agent57.runtime.run import RunFailed
from agent57.scores.published import Reference, suite_games
from agent57.storage.folder import write_atomic
from agent57.storage.history import METRICS_FILE

PLAN_FILE = "suite.json"
SUITES: tuple[Literal["atari57"], Literal["challenging10"]] = ("atari57", "challenging10")


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What to train."""

    name: str
    games: tuple[str, ...]
    agents: tuple[str, ...]
    num_seeds: int
    scale: str
    frames: int | None
    device: str = "auto"
    runtime: str = "inline"
    overrides: tuple[str, ...] = ()  # further options of `agent57 train`

    def __post_init__(self) -> None:
        require(self.num_seeds > 0, f"--seeds must be positive, got {self.num_seeds}")
        require(
            self.frames is None or self.frames > 0, f"--frames must be positive, got {self.frames}"
        )
        for game in self.games:
            if game not in suite_games("atari57"):
                check_env(EnvConfig(name=game))

    def folder(self, out: Path, game: str, agent: str, seed: int) -> Path:
        """Where a run lives."""
        return out / game.replace("/", "-").replace(":", "-") / agent / f"seed{seed}"

    def jobs(self, out: Path, num_threads: int) -> list[Job]:
        """The runs, one seed of everything before the next, so that a partial suite is even."""
        return [
            Job(
                name=f"{game} {agent} seed {seed}",
                folder=self.folder(out, game, agent, seed),
                options=(
                    *("--env", game, "--agent", agent, "--seed", str(seed), "--scale", self.scale),
                    *("--device", self.device, "--runtime", self.runtime),
                    *("--run.threads", str(num_threads)),
                    *self.overrides,
                ),
                frames=self.frames or DEFAULT_FRAMES[self.scale],
            )
            for seed in range(self.num_seeds)
            for game in self.games
            for agent in self.agents
        ]


def suite_names(text: str) -> tuple[str, ...]:
    """The games of `atari57`, `challenging10`, or NAME,NAME."""
    for suite in SUITES:
        if text == suite:
            return suite_games(suite)
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    require(bool(names), "name a suite: atari57, challenging10, or NAME,NAME")
    return tuple(dict.fromkeys(names))


def run_suite(
    suite: Suite, out: Path, num_parallel: int, reference: Reference, console: Console
) -> Results:
    """Bring all runs to their end, then write what they say; also if interrupted or failed."""
    require(num_parallel >= 0, f"--jobs must not be negative, got {num_parallel}")
    cores = os.cpu_count() or 1
    num_parallel = num_parallel or cores
    _check_plan(suite, out)
    jobs = suite.jobs(out, max(1, cores // num_parallel))
    done = sum(job.is_finished for job in jobs)
    console.print(f"{len(jobs)} runs, {done} finished already, {num_parallel} at a time")
    queue = JobQueue(
        jobs,
        num_parallel,
        console,
        on_finished=lambda job: console.print(f"finished: {job.name}", highlight=False),
        keep_going=True,
    )
    try:
        queue.run()
    finally:
        results = collect(suite, out, jobs, reference)
        _print(results, console)
        console.print(f"results: {out}/results.json, results.csv, report.html", highlight=False)
    if queue.failures:
        others = f" (and {len(queue.failures) - 1} more)" if len(queue.failures) > 1 else ""
        raise RunFailed(queue.failures[0] + others)
    return results


def _check_plan(suite: Suite, out: Path) -> None:
    """Refuse to mix two experiments in one folder; more games, agents or seeds are welcome."""
    plan = {"scale": suite.scale, "overrides": list(suite.overrides)}
    file = out / PLAN_FILE
    if file.exists():
        try:
            found = json.loads(file.read_text())
        except ValueError:
            raise ConfigError(f"{file} is damaged") from None
        require(
            found == plan,
            f"--out {out} holds a suite of scale {found.get('scale')} with options "
            f"{found.get('overrides')}: give the same, or another folder",
        )
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomic(file, json.dumps(plan).encode())
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written: {error.strerror}") from None


def collect(suite: Suite, out: Path, jobs: list[Job], reference: Reference) -> Results:
    """Score what there is, and write it down."""
    seeds = {
        agent: {
            game: [suite.folder(out, game, agent, seed) for seed in range(suite.num_seeds)]
            for game in suite.games
        }
        for agent in suite.agents
    }
    num_finished = sum(job.is_finished for job in jobs)
    results = suite_results(seeds, suite.games, len(jobs), num_finished, reference)
    results = {"suite": suite.name, "scale": suite.scale, **results}
    write_results(out, results)
    if any((job.folder / METRICS_FILE).exists() for job in jobs):
        write_report([out], None)
    return results


def _print(results: dict[str, Any], console: Console) -> None:
    table = Table(title=f"{results['suite']}: {results['coverage']['text']}")
    for column in ("game", "agent", "best", "final", "HNS, %", "seeds", "episodes"):
        table.add_column(column, justify="left" if column in ("game", "agent") else "right")
    for row in results["scores"]:
        hns = "-" if row["hns"] is None else f"{100 * row['hns']:.1f}"
        best = f"{row['score']:,.1f} ± {row['deviation']:,.1f}"
        final = f"{row['final']:,.1f} ± {row['final_deviation']:,.1f}"
        counts = (str(row["seeds"]), str(row["episodes"]))
        table.add_row(row["game"], row["agent"], best, final, hns, *counts)
    console.print(table)
    for agent, values in results["aggregates"]["paper"]["agents"].items():
        statistics = values["statistics"]
        shown = [f"{n} {100 * statistics[n]['point']:.1f} %" for n in ("iqm", "median", "mean")]
        above = f"{statistics['games_above_human']['point']:.0f} games above human"
        text = f"{agent} ({values['coverage']}): {', '.join(shown)}, {above}"
        console.print(text, highlight=False)
