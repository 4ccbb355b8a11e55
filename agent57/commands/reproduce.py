"""agent57 reproduce."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from agent57.commands.options import parse
from agent57.config import require

EXPERIMENTS = {
    "random-coin": "separate networks keep the exploitative policy intact (section 4.2)",
}
BUDGETS = ("minutes", "full")


@dataclass(frozen=True, kw_only=True)
class Reproduce:
    """Repeat an experiment of the paper: train, evaluate, compare, draw."""

    name: Annotated[str, tyro.conf.Positional] = "list"
    """The experiment, or `list`."""
    budget: str = "minutes"
    """minutes: under an hour on two cores; full: several hours, three seeds."""
    out: Path | None = None
    """Where runs, figure and data go; runs/reproduce/<name>-<budget> by default."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""


def main(args: list[str], console: Console) -> None:
    """Reproduce, or list what can be."""
    known = parse(Reproduce, "reproduce", args)
    if known.name == "list":
        table = Table("experiment", "claim of the paper")
        for name, claim in EXPERIMENTS.items():
            table.add_row(name, claim)
        console.print(table)
        return
    names = ", ".join(EXPERIMENTS)
    require(known.name in EXPERIMENTS, f"experiment {known.name!r} is not one of {names}")
    require(known.budget in BUDGETS, f"--budget {known.budget!r} is not one of minutes, full")
    require(known.jobs >= 0, f"--jobs must not be negative, got {known.jobs}")
    out = known.out or Path("runs/reproduce") / f"{known.name}-{known.budget}"

    from agent57.reproduce.random_coin import reproduce

    num_parallel = known.jobs or os.cpu_count() or 1
    is_seen = reproduce(known.budget, out, num_parallel, console)
    console.print(f"data and figure: {out}", highlight=False)
    if not is_seen:
        from agent57.runtime.run import RunFailed

        raise RunFailed(f"{known.name} fell short of the paper's claim; see {out}")
