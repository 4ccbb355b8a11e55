"""The command `agent57 scores`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent57.commands.options import parse
from agent57.config import ConfigError
from agent57.scores.published import (
    ABLATIONS,
    AGENTS,
    STATISTICS,
    TABLES,
    check_reference,
    scores_result,
)
from agent57.storage.folder import write_json


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Show the paper's published scores, and its aggregate table recomputed from them."""

    table: str = "table1"
    """table1, atari57 or challenging10."""
    reference: str = "agent57"
    """Source of the human and random scores: agent57 (the paper) or dqn_zoo."""
    json: Path | None = None
    """Write the table to this file."""


def main(args: list[str], console: Console) -> None:
    """Print one of the tables, and write it to a file if asked for."""
    known = parse(Scores, "scores", args)
    name = next((table for table in TABLES if table == known.table), None)
    if name is None:
        raise ConfigError(f"unknown table {known.table!r}; choose from {', '.join(TABLES)}")
    result = scores_result(name, check_reference(known.reference))
    if name == "table1":
        _print_table1(result, console)
    else:
        _print_games(result, console)
    console.print(result["note"], markup=False, highlight=False)
    if known.json is not None:
        write_json(known.json, result)
        console.print(f"Written to {known.json}", markup=False, highlight=False)


def _print_table1(result: dict[str, Any], console: Console) -> None:
    """Print a row per statistic, and mark numbers that differ from the printed paper."""
    tolerance = 0.05
    table = _empty_table("Human-normalised scores over 57 games, in %", "statistic")
    for agent in result["recomputed"]:
        table.add_column(_header(agent), justify="right", no_wrap=True)
    differences = []
    for name, label in STATISTICS.items():
        cells = []
        for agent, values in result["recomputed"].items():
            difference = abs(values[name] - result["published"][agent][name])
            differences.append(difference)
            text = f"{values[name]:.0f}" if name == "games_above_human" else f"{values[name]:.2f}"
            differs = difference > tolerance
            cells.append(Text(f"{text}*" if differs else text, style="yellow" if differs else ""))
        table.add_row(label, *cells)
    console.print(table)
    num_apart = sum(difference > tolerance for difference in differences)
    mark = f" (* marks the {num_apart} that do not)" if num_apart else ""
    console.print(
        f"Recomputed from the per-game scores. {len(differences) - num_apart} of "
        f"{len(differences)} numbers agree with the paper's table 1 to {tolerance}{mark}; "
        f"the largest difference is {max(differences):.2f}.",
        markup=False,
        highlight=False,
    )


def _print_games(result: dict[str, Any], console: Console) -> None:
    """Print scores and deviations if the terminal is wide enough, else normalised scores."""
    wide = _games_table(result, is_wide=True)
    unlimited = console.options.update(width=1000)
    num_columns = console.measure(wide, options=unlimited).maximum
    if num_columns <= console.width:
        console.print(wide)
        return
    console.print(_games_table(result, is_wide=False))
    console.print(
        f"To see scores and deviations, use --json FILE or a terminal of {num_columns} columns "
        f"(this one has {console.width}).",
        markup=False,
        highlight=False,
    )


def _games_table(result: dict[str, Any], *, is_wide: bool) -> Table:
    """Return a row per game; green is above human, red is not. Statistics are in percent."""
    unit = "score ± deviation; statistics of the HNS in %" if is_wide else "HNS in %"
    title = f"Published scores on {len(result['games'])} games: {unit}"
    table = _empty_table(title, "game")
    scale = ("human", "random") if is_wide else ()
    for name in (*scale, *result["statistics"]):
        table.add_column(_header(name), justify="right", no_wrap=True)
    for game, row in result["games"].items():
        cells = [_cell(row["agents"][agent], is_wide=is_wide) for agent in result["statistics"]]
        table.add_row(game, *(f"{row[name]:.1f}" for name in scale), *cells)
    table.add_section()
    for name, label in STATISTICS.items():
        values = [statistics[name] for statistics in result["statistics"].values()]
        is_count = name == "games_above_human"
        texts = [f"{value:.0f}" if is_count else f"{100 * value:.1f}" for value in values]
        table.add_row(label, *("" for _ in scale), *texts)
    return table


def _empty_table(title: str, first_column: str) -> Table:
    """Return a table without padding that fits 80 columns."""
    table = Table(title=title, box=box.SIMPLE_HEAVY, padding=0, pad_edge=False, show_edge=False)
    table.add_column(first_column, no_wrap=True)
    return table


def _header(name: str) -> str:
    """Return a column's name, one word per line."""
    label = {**AGENTS, **ABLATIONS}.get(name, name)
    return "\n".join(label.replace("(", "").replace(")", "").split())


def _cell(result: dict[str, Any], *, is_wide: bool) -> Text:
    text = f"{100 * result['hns']:.1f}"
    if is_wide:
        deviation = "" if result["deviation"] is None else f" ± {result['deviation']:.1f}"
        text = f"{result['score']:.1f}{deviation}"
    return Text(text, style="green" if result["hns"] > 1 else "red")
