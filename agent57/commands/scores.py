"""agent57 scores."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from agent57.commands.options import parse


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The paper's published scores, and its aggregate table recomputed from them."""

    table: str = "table1"
    """table1, atari57 or challenging10."""
    reference: str = "agent57"
    """Whose human and random scores to normalise by: agent57 (the paper's) or dqn_zoo."""
    json: Path | None = None
    """Write the table to this file."""


def main(args: list[str], console: Console) -> None:
    """Print a table."""
    known = parse(Scores, "scores", args)
    from agent57.records.scores import scores_command

    scores_command(known.table, known.reference, known.json, console)
