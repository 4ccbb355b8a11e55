"""The benchmark as tables for a terminal, and as JSON."""

import dataclasses
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from agent57.bench.cost import Result
from agent57.storage.folder import write_json


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
        write_json(path, dataclasses.asdict(self))

    def show(self, console: Console) -> None:
        """Print the tables."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        console.print(machine, highlight=False)
        limits = ", ".join(f"{name} {value:.1f}" for name, value in self.limits.items())
        console.print(limits, highlight=False)
        console.print(self._flops(), highlight=False)
        console.print(_table("parts", self.parts))
        for name, results in self.scaling.items():
            console.print(_table(f"by {name}", results))
        sizes = ", ".join(f"{game} {size:.0f}" for game, size in self.bytes_per_transition.items())
        console.print(f"bytes per transition: {sizes} (aim: mean at most 350)", highlight=False)

    def _flops(self) -> str:
        counted = {
            f"{r.part} {r.scale} {r.flops / 1e6:.1f} MFLOP per {r.unit.removesuffix('s')}": None
            for r in self.parts
            if r.flops is not None
        }
        return "counted: " + ", ".join(counted)


def _table(title: str, results: list[Result]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("part", "scale", "setting"):
        table.add_column(name)
    for name in ("rate per second", "spread", "limit", "ratio", "CPU ratio", "aim"):
        table.add_column(name, justify="right")
    for result in results:
        table.add_row(
            result.part,
            result.scale,
            result.setting,
            f"{_number(result.rate)} {result.unit}",
            f"±{(result.highest - result.lowest) / 2 / result.rate:.0%}",
            _number(result.limit),
            f"{result.ratio:.2f}",
            f"{result.cpu_ratio:.2f}",
            _aim(result),
        )
    return table


def _number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def _aim(result: Result) -> str:
    if result.aim is None:
        return ""
    mark = "[green]met[/]" if result.ratio >= result.aim else "[yellow]missed[/]"
    return f"{result.aim:.2f} {mark}"
