"""agent57 bench."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from agent57.commands.options import parse


@dataclass(frozen=True, kw_only=True)
class Bench:
    """How fast each part is on this machine, beside what the machine cannot avoid."""

    json: Path | None = None
    """Write the figures to this file."""
    quick: bool = False
    """Tiny networks and a second of measuring: shows that all parts run, not how fast."""


def main(args: list[str], console: Console) -> None:
    """Measure, print and save."""
    known = parse(Bench, "bench", args)
    from agent57.bench.benchmark import run_bench
    from agent57.bench.effort import FULL, QUICK
    from agent57.storage.folder import check_json

    if known.json is not None:
        check_json(known.json)
    report = run_bench(QUICK if known.quick else FULL, console)
    report.show(console)
    if known.json is not None:
        report.write(known.json)
