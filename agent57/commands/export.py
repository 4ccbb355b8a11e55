"""The command `agent57 export`."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agent57.commands.options import parse, vouch_for
from agent57.config import ConfigError, require
from agent57.storage.files import write_atomic
from agent57.storage.folder import CONFIG_FILE
from agent57.terminal.progress import say

TABLES = ("metrics", "episodes")


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write the policy of a run as one small file, or its records as CSV."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    weights: Path | None = None
    """The file for the policy, without replay and optimisers; `agent57.load` reads it."""
    half: bool = False
    """Store the weights in half precision."""
    trust: bool = False
    """With --weights: run the code of an environment that is not an installed package."""
    csv: Path | None = None
    """The file for the records."""
    table: str = "metrics"
    """Which records to write: metrics or episodes."""


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


def export_csv(path: Path, table: str, file: Path) -> tuple[int, list[str]]:
    """Write one table of a run, a column per scalar; its rows, and what could not be read.

    A scalar that a line does not have is an empty cell.
    """
    from agent57.storage.history import read_whole_lines

    require(table in TABLES, f"--table {table!r} is not one of {', '.join(TABLES)}")
    require((path / CONFIG_FILE).is_file(), f"{path} holds no run: {CONFIG_FILE} is missing")
    rows, damage = read_whole_lines(path / f"{table}.jsonl")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, text.getvalue().encode())
    except OSError as error:
        raise ConfigError(f"--csv {file} cannot be written: {error.strerror}") from None
    return len(rows), damage
