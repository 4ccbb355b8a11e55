"""The terminal view of an evaluation: its progress, then a table of its numbers."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent57.terminal.progress import ProgressView, say


class EvaluationView:
    """Shows an evaluation on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """Print a line."""
        say(self._console, text)

    def progress(self, path: Path, num_episodes: int) -> ProgressView:
        """Return a view that counts the finished episodes."""
        return ProgressView(self._console, f"playing {path}", num_episodes)

    def show(self, result: dict[str, Any]) -> None:
        """Print a table of the results."""
        self._console.print(_table(result))


def _spread(result: dict[str, Any]) -> str:
    """Write the mean return, and its spread if there are several episodes."""
    mean = f"{result['return_mean']:,.2f}"
    if result["num_episodes"] == 1:
        return mean
    low, high = f"{result['return_min']:,.2f}", f"{result['return_max']:,.2f}"
    return f"{mean} ± {result['return_std']:,.2f}  (min {low}, max {high})"


def _table(result: dict[str, Any]) -> Table:
    table = Table(show_header=False)
    rows = {
        "run": f"{result['agent']} on {result['env']}, {result['trained_frames']:,} frames trained",
        "arm": f"{result['arm']}{' (best)' if result['is_best_arm'] else ''}, "
        f"beta {result['beta']:.4g}, gamma {result['gamma']:.6g}",
        "episodes": f"{result['num_episodes']}, epsilon {result['epsilon']:g}",
        "return": _spread(result),
        "length": f"{result['length_mean']:,.0f} steps",
    }
    if "hns" in result:
        rows["human-normalised"] = f"{100 * result['hns']:.1f} % (0 is random, 100 is human)"
    for name, text in rows.items():
        table.add_row(name, Text(text))
    return table
