"""The benchmark as tables for a terminal, and as JSON."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent57.bench.cost import Result


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Everything one run of the benchmark found."""

    machine: dict[str, Any]
    limits: dict[str, float]
    parts: list[Result]
    scaling: dict[str, list[Result]]  # by what was scaled
    bytes_per_transition: dict[str, float]

    def write(self, path: Path) -> None:
        """Save as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")

    def show(self, console: Console) -> None:
        """Print the tables."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        console.print(machine, highlight=False)
        limits = ", ".join(f"{name} {value:.1f}" for name, value in self.limits.items())
        console.print(limits, highlight=False)
        console.print(_table("parts", self.parts))
        for name, results in self.scaling.items():
            console.print(_table(f"by {name}", results))
        sizes = ", ".join(f"{game} {size:.0f}" for game, size in self.bytes_per_transition.items())
        console.print(f"bytes per transition: {sizes} (aim: mean at most 350)", highlight=False)


def _table(title: str, results: list[Result]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("part", "scale"):
        table.add_column(name)
    for name in ("rate /s", "spread", "limit /s", "ratio", "CPU ratio", "aim"):
        table.add_column(name, justify="right")
    table.add_column("")
    for result in results:
        table.add_row(
            result.part,
            result.scale,
            f"{result.rate:,.0f} {result.unit}" if result.rate >= 100 else _small(result),
            f"±{(result.highest - result.lowest) / 2 / result.rate:.0%}",
            f"{result.limit:,.0f}",
            f"{result.ratio:.2f}",
            f"{result.cpu_ratio:.2f}",
            _aim(result),
            result.note,
        )
    return table


def _small(result: Result) -> str:
    return f"{result.rate:,.1f} {result.unit}"


def _aim(result: Result) -> str:
    if result.aim is None:
        return ""
    mark = "[green]met[/]" if result.ratio >= result.aim else "[yellow]missed[/]"
    return f"{result.aim:.2f} {mark}"
