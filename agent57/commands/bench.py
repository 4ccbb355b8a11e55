"""The command `agent57 bench`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from agent57.commands.options import parse
from agent57.config import require
from agent57.terminal.progress import say

if TYPE_CHECKING:
    from agent57.bench.benchmark import Report
    from agent57.bench.cost import Result


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure how fast each part is on this machine, against the limits of the machine.

    Also measure and save the costs from which `agent57 plan` and `agent57 train` predict.
    """

    json: Path | None = None
    """Write the figures to this file."""
    quick: bool = False
    """Tiny networks and a second of measuring, to show that all parts run."""
    costs_only: bool = False
    """Measure the costs of `agent57 plan` only: half a minute of one core."""


def main(args: list[str], console: Console) -> None:
    """Measure, print and save speeds and costs."""
    known = parse(Bench, "bench", args)
    from agent57.bench.benchmark import run_bench
    from agent57.bench.effort import FULL, QUICK
    from agent57.bench.measuring import measure_costs
    from agent57.planning.machine_costs import costs_file
    from agent57.storage.folder import check_json

    if known.json is not None:
        check_json(known.json)
    plan = QUICK if known.quick else FULL
    require(known.json is None or not known.costs_only, "--json needs all parts: omit --costs-only")
    with console.status("starting") as status:
        report = None if known.costs_only else run_bench(plan, status.update)
        costs = measure_costs(plan, status.update)
    if report is not None:
        show(report, console)
        if known.json is not None:
            report.write(known.json)
    if not known.quick:  # costs of tiny networks do not apply to large networks
        costs.write(costs_file())
        say(console, f"costs for `agent57 plan`: {costs_file()}")


def show(report: "Report", console: Console) -> None:
    """Print the tables of a benchmark."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    limits = ", ".join(f"{name} {value:.1f}" for name, value in report.limits.items())
    for line in (machine, limits, _flops(report.parts)):
        say(console, line)
    console.print(_table("parts", report.parts))
    for name, results in report.scaling.items():
        console.print(_table(f"by {name}", results))
    sizes = ", ".join(f"{game} {size:.0f}" for game, size in report.bytes_per_transition.items())
    say(console, f"bytes per transition: {sizes} (aim: mean at most 350)")


def _flops(parts: "list[Result]") -> str:
    counted = {
        f"{r.part} {r.scale} {r.flops / 1e6:.1f} MFLOP per {r.unit.removesuffix('s')}": None
        for r in parts
        if r.flops is not None
    }
    return "counted: " + ", ".join(counted)


def _table(title: str, results: "list[Result]") -> Table:
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


def _aim(result: "Result") -> str:
    if result.aim is None:
        return ""
    mark = "[green]met[/]" if result.ratio >= result.aim else "[yellow]missed[/]"
    return f"{result.aim:.2f} {mark}"
