"""The command `agent57 reproduce`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from agent57.commands.options import parse
from agent57.config import require
from agent57.experiments.catalogue import EXPERIMENTS
from agent57.experiments.experiment import Experiment, Verdict
from agent57.experiments.experiment import Results as Outcomes
from agent57.terminal.progress import say


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Repeat an experiment of the paper: train, evaluate, compare, draw."""

    name: Annotated[str, tyro.conf.Positional] = "list"
    """The experiment, or `list`."""
    budget: str = "minutes"
    """minutes: one seed, for a first look; full: enough for the claim, up to several hours."""
    seeds: int | None = None
    """Number of seeds, by default the budget's. More seeds can be added later."""
    out: Path | None = None
    """Folder for card, figures, data and weights; the folder of the runs by default."""
    runs: Path | None = None
    """Folder for the runs; runs/reproduce/<name>-<budget> by default."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""


def main(args: list[str], console: Console) -> None:
    """Perform an experiment, or list all of them."""
    known = parse(Reproduce, "reproduce", args)
    if known.name == "list":
        console.print(listing())
        return
    names = ", ".join(EXPERIMENTS)
    require(known.name in EXPERIMENTS, f"experiment {known.name!r} is not one of {names}")
    experiment = EXPERIMENTS[known.name]
    budgets = ", ".join(experiment.budgets)
    require(
        known.budget in experiment.budgets, f"--budget {known.budget!r} is not one of {budgets}"
    )
    require(known.jobs >= 0, f"--jobs must not be negative, got {known.jobs}")
    if known.seeds is not None:
        require(known.seeds > 0, f"--seeds must be positive, got {known.seeds}")
        budget = replace(experiment.budgets[known.budget], num_seeds=known.seeds)
        experiment = replace(experiment, budgets={known.budget: budget})
    runs = known.runs or Path("runs/reproduce") / f"{known.name}-{known.budget}"
    out = known.out or runs

    from agent57.commands.queue_view import QueueView
    from agent57.experiments.runner import reproduce
    from agent57.runtime.run import RunFailed

    with QueueView(console) as view:
        results, verdicts = reproduce(experiment, known.budget, runs, out, known.jobs, view)
    show(experiment, results, verdicts, console)
    say(console, f"card, data and figures: {out}")
    if not all(verdict.is_met for verdict in verdicts):
        raise RunFailed(f"{known.name} fell short of the paper's claim; see {out}")


def show(
    experiment: Experiment, results: Outcomes, verdicts: list[Verdict], console: Console
) -> None:
    """Print the scores of all runs and the verdict on each criterion."""
    table = Table("contestant", "seed", "score", "evaluator", "best arm", title=experiment.name)
    for outcomes in results.values():
        for o in outcomes:
            beta, gamma = o.beta_gamma
            arm = f"{o.best_arm} (beta {beta:.3g}, gamma {gamma:.5g})"
            table.add_row(o.label, str(o.seed), f"{o.score:,.3f}", f"{o.evaluator:,.3f}", arm)
    console.print(table)
    for verdict in verdicts:
        text = f"{verdict.word}: {verdict.goal}: {verdict.value:,.4g}"
        say(console, text)


def listing() -> Table:
    """Return a table of all experiments with claim, task and criteria."""
    table = Table("experiment", "claim of the paper", "task", "criteria")
    for name, experiment in EXPERIMENTS.items():
        targets = "\n".join(criterion.goal for criterion in experiment.criteria)
        table.add_row(name, experiment.claim, experiment.env, targets)
    return table
