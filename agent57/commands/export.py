"""The command `agent57 export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agent57.commands.options import parse, vouch_for
from agent57.config import require
from agent57.terminal.progress import say


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write the policy of a run as one small file, or its records as CSV."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    weights: Path | None = None
    """The file for the policy, without replay and optimisers; `agent57.load` reads it."""
    half: bool = False
    """Store the weights in half precision."""
    csv: Path | None = None
    """The file for the records."""
    table: str = "metrics"
    """Which records to write: metrics or episodes."""
    trust: bool = False
    """With --weights: run the code of an environment that is not an installed package."""


def main(args: list[str], console: Console) -> None:
    """Write the files."""
    known = parse(Export, "export", args)
    require(
        known.weights is not None or known.csv is not None,
        "export needs --weights FILE for the policy, or --csv FILE for the records",
    )
    require(known.weights is not None or not known.half, "--half is for --weights")
    require(known.weights is not None or not known.trust, "--trust is for --weights")
    if known.csv is not None:
        from agent57.storage.csv_export import export_csv

        num_rows, damage = export_csv(known.run, known.table, known.csv)
        for text in damage:
            say(console, f"{text}: left out")
        say(console, f"{known.csv}: {num_rows:,} rows")
    if known.weights is not None:
        from agent57.trained.policy_file import read_trained, write_policy

        if known.trust:
            vouch_for(known.run)
        run = read_trained(known.run)
        for text in run.damaged:
            say(console, f"{text}: using the checkpoint before it")
        num_bytes = write_policy(run, run.task(), known.weights, half=known.half)
        say(console, f"{known.weights}: {num_bytes / 1e6:.1f} MB")
