"""agent57 reproduce."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from agent57.commands.options import parse
from agent57.config import require
from agent57.experiments.catalogue import EXPERIMENTS


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Repeat an experiment of the paper: train, evaluate, compare, draw."""

    name: Annotated[str, tyro.conf.Positional] = "list"
    """The experiment, or `list`."""
    budget: str = "minutes"
    """minutes: a first look, one seed; full: what the claim needs, up to several hours."""
    seeds: int | None = None
    """How many; by default those of the budget. More can be added later."""
    out: Path | None = None
    """Where card, figures, data and weights go; beside the runs by default."""
    runs: Path | None = None
    """Where the runs go; runs/reproduce/<name>-<budget> by default."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""


def main(args: list[str], console: Console) -> None:
    """Reproduce, or list what can be."""
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

    from agent57.experiments.runner import reproduce

    num_parallel = known.jobs or os.cpu_count() or 1
    is_seen = reproduce(experiment, known.budget, runs, out, num_parallel, console)
    console.print(f"card, data and figures: {out}", highlight=False)
    if not is_seen:
        from agent57.runtime.run import RunFailed

        raise RunFailed(f"{known.name} fell short of the paper's claim; see {out}")


def listing() -> Table:
    """Every experiment, with what must come out."""
    table = Table("experiment", "claim of the paper", "task", "must come out")
    for name, experiment in EXPERIMENTS.items():
        targets = "\n".join(criterion.goal for criterion in experiment.criteria)
        table.add_row(name, experiment.claim, experiment.env, targets)
    return table
