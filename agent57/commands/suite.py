"""The command `agent57 suite`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from agent57.commands.options import parse
from agent57.commands.train import SETTLED, apply_overrides, check_fields
from agent57.config import Config, ConfigError, require
from agent57.scores.aggregate import plus_minus
from agent57.scores.published import Reference, check_reference
from agent57.terminal.progress import waiting

if TYPE_CHECKING:
    from agent57.experiments.jobs import Job
    from agent57.experiments.suite_runs import Suite
    from agent57.runtime.cluster.remote_runs import RemoteMachines

SEEDS = 3
PAPER_SEEDS = 6  # seeds of agent57 in the paper's final results

SETTLED_BY_SUITE = SETTLED | {
    "--run.agent": "--agents",
    "--run.seed": "--seeds",
    "--env.name": "the games of the suite",
}


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """Train every agent on every task with every seed, and score the runs by the paper's rule.

    Any field of the configuration may follow as --group.field value.
    """

    suite: Annotated[str, tyro.conf.Positional]
    """desk, challenging10, atari57, or NAME,NAME."""
    agents: str = "agent57"
    """Systems of the paper, separated by commas."""
    seeds: int | None = None
    """Runs of each agent on each task; by default 3, at paper scale the paper's 6 for agent57,
    and 1 for long tasks of the desk suite."""
    out: Path | None = None
    """Folder for runs and results, runs/suite or runs/desk by default; existing runs continue."""
    only: str = ""
    """Train only these tasks of the desk suite: NAME,NAME."""
    scale: str = "laptop"
    """The machine: paper, desktop, laptop or tiny."""
    frames: int | None = None
    """Frames of each run; by default the scale's."""
    device: str = "auto"
    """Device of each run: cpu, cuda, cuda:1, ...; auto is the GPU if there is one."""
    runtime: Literal["inline", "cluster"] = "inline"
    """inline: runs on this machine. cluster: runs on the machines of a Ray cluster, each in one
    process (pip install 'agent57[cluster]'); all machines must share the folder --out."""
    ray_address: str = ""
    """On a cluster: host:port of the Ray to join; by default one on this machine, or a new one."""
    jobs: int = 0
    """Runs at a time; 0: one per core, on a cluster of all its machines."""
    reference: str = "agent57"
    """Source of the human and random scores: agent57 (the paper) or dqn_zoo."""


def num_seeds(known: SuiteOptions, agent: str) -> int:
    """Return the number of seeds of an agent: as in --seeds, or the default."""
    if known.seeds is not None:
        return known.seeds
    return PAPER_SEEDS if known.scale == "paper" and agent == "agent57" else SEEDS


def main(args: list[str], console: Console) -> None:
    """Train and score the runs of a suite."""
    known, rest = parse(SuiteOptions, "suite", args, return_unknown_args=True)
    if rest and not rest[0].startswith("-"):
        raise ConfigError(f"separate games by commas, without spaces: {known.suite},{rest[0]}")
    agents = tuple(name.strip() for name in known.agents.split(",") if name.strip())
    if not agents:
        raise ConfigError("--agents must name at least one of `agent57 presets`")
    check_fields("inline", rest)
    require(
        not known.ray_address or known.runtime == "cluster",
        "--ray-address is for --runtime cluster",
    )

    reference = check_reference(known.reference)
    if known.suite == "desk":
        _desk(known, agents, rest, reference, console)
        return
    require(not known.only, f"--only is for the desk suite, not for {known.suite}")

    with waiting(console, f"preparing {known.suite}"):
        suite = _suite(known, agents, rest)
    out = known.out or Path("runs/suite")
    if known.runtime == "inline":
        _run(suite, out, known.jobs, reference, console)
        return

    from agent57.runtime.cluster.ray_address import prepare

    config = suite.entries[0].config
    config = replace(config, cluster=replace(config.cluster, ray_address=known.ray_address))
    address = prepare(config)
    from agent57.runtime.cluster.remote_runs import remote_machines

    with remote_machines(config, address, max(1, config.run.threads)) as machines:
        _run(suite, out, known.jobs, reference, console, machines)


def _suite(known: SuiteOptions, agents: tuple[str, ...], overrides: list[str]) -> "Suite":
    """Return the runs that the options ask for."""
    from agent57.experiments.suite_runs import Entry, Suite, suite_names

    entries = tuple(
        Entry(config=configured(known, task, agent, overrides), num_seeds=num_seeds(known, agent))
        for task in suite_names(known.suite)
        for agent in agents
    )
    return Suite(name=known.suite, scale=known.scale, entries=entries)


def _run(
    suite: "Suite",
    out: Path,
    num_parallel: int,
    reference: Reference,
    console: Console,
    machines: "RemoteMachines | None" = None,
) -> "list[Job]":
    """Train and score. Write and print results even after an interruption."""
    from agent57.commands.queue_view import QueueView
    from agent57.experiments.jobs import launch_here
    from agent57.experiments.suite_runs import collect, prepare_jobs, train_all

    launch, num_threads = launch_here, None
    if machines is not None:
        launch, num_threads = machines.launch, machines.num_threads
        num_parallel = num_parallel or machines.num_parallel
    jobs, num_parallel = prepare_jobs(suite, out, num_parallel, num_threads)
    done = sum(job.is_finished for job in jobs)
    console.print(f"{len(jobs)} runs, {done} finished already, {num_parallel} at a time")
    try:
        with QueueView(console) as view:
            train_all(jobs, num_parallel, view, launch)
    finally:
        show(collect(suite, out, jobs, reference), console)
        files = f"{out}/results.json, results.csv, report.html"
        console.print(f"results: {files}", highlight=False)
    return jobs


def _desk(
    known: SuiteOptions,
    agents: tuple[str, ...],
    overrides: list[str],
    reference: Reference,
    console: Console,
) -> None:
    """Train the desk suite, play the final policies and compare them with their targets."""
    require(
        not overrides and known.device == "auto" and known.runtime == "inline",
        "the desk suite measures the default settings: leave out --device, --runtime and fields",
    )
    with waiting(console, "preparing the desk suite"):
        from agent57.commands.queue_view import QueueView
        from agent57.experiments import desk

        tasks, out = desk.chosen_tasks(known.only), known.out or Path("runs/desk")
        baselines = desk.read_baselines(out / desk.BASELINES_FILE, tasks)
        suite = desk.desk_suite(tasks, agents, known.scale, known.seeds, known.frames)
    jobs = _run(suite, out, known.jobs, reference, console)
    with QueueView(console) as view:
        scores = desk.score_runs(tasks, jobs, view.tell)
    desk.write_desk(out, tasks, agents, [*scores, *baselines])
    table = Table(
        "task", "frames", "target", "agent", "final policy", "hours", "", title="desk suite"
    )
    for score in scores:
        word = "met" if score.is_met else "FALLS SHORT"
        numbers = (f"{score.frames:,}", f"{score.task.target:,.4g}", score.system)
        table.add_row(score.task.env, *numbers, desk.cell(score), f"{score.hours:.2f}", word)
    console.print(table)
    console.print(f"table and figure: {out}/desk.md, desk.csv, desk.png", highlight=False)


def configured(known: SuiteOptions, task: str, agent: str, overrides: list[str]) -> Config:
    """Return the settings of one agent on one task."""
    from agent57.defaults import default_config

    config = default_config(task, agent, known.scale)
    frames = config.run.frames if known.frames is None else known.frames
    run = replace(config.run, frames=frames, device=known.device)
    return apply_overrides(replace(config, run=run), overrides, SETTLED_BY_SUITE)


def show(results: dict[str, Any], console: Console) -> None:
    """Print scores by task and agent, then the aggregates."""
    table = Table(title=f"{results['suite']}: {results['coverage']['text']}")
    for column in ("task", "agent", "best", "final", "HNS, %", "seeds", "episodes"):
        table.add_column(column, justify="left" if column in ("task", "agent") else "right")
    for row in results["scores"]:
        hns = "-" if row["hns"] is None else f"{100 * row['hns']:.1f}"
        best = plus_minus(row["score"], row["deviation"], row["seeds"])
        final = plus_minus(row["final"], row["final_deviation"], row["seeds"])
        is_whole = row["seeds"] == row["planned_seeds"]
        seeds = str(row["seeds"]) if is_whole else f"{row['seeds']} of {row['planned_seeds']}"
        table.add_row(row["game"], row["agent"], best, final, hns, seeds, str(row["episodes"]))
    for row in results["unscored"]:
        seeds = f"0 of {row['planned_seeds']}"
        table.add_row(row["game"], row["agent"], "-", "-", "-", seeds, "0")
    console.print(table)
    for agent, values in results["aggregates"]["paper"]["agents"].items():
        statistics = values["statistics"]
        shown = [f"{n} {100 * statistics[n]['point']:.1f} %" for n in ("iqm", "median", "mean")]
        above = f"{statistics['games_above_human']['point']:.0f} games above human"
        text = f"{agent} ({values['coverage']}): {', '.join(shown)}, {above}"
        console.print(text, highlight=False)
