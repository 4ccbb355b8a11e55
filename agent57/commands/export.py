"""agent57 export."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agent57.commands.options import parse


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write the records of a run as CSV."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    csv: Path
    """The file to write."""
    table: str = "metrics"
    """metrics or episodes."""


def main(args: list[str], console: Console) -> None:
    """Write the file."""
    known = parse(Export, "export", args)
    from agent57.storage.csv_export import export_csv

    num_rows = export_csv(known.run, known.table, known.csv)
    console.print(f"{known.csv}: {num_rows:,} rows", highlight=False)
