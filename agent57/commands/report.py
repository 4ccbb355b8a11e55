"""The command `agent57 report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agent57.commands.options import parse
from agent57.terminal.progress import say


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write one self-contained HTML page about runs, or about all runs below a folder."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders that hold runs (such as a suite)."""
    out: Path | None = None
    """The file to write; report.html in the folder, or in this folder if several are given."""


def main(args: list[str], console: Console) -> None:
    """Write the page."""
    known = parse(Report, "report", args)
    from agent57.reports.page import write_report

    file = write_report(list(known.runs), known.out)
    size = file.stat().st_size / 1e6
    say(console, f"report: {file} ({size:.1f} MB); open it in a browser")
