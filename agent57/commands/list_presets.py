"""agent57 presets."""

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from agent57.commands.options import parse
from agent57.config import require
from agent57.presets import PRESETS, difference, flatten, make_config


@dataclass(frozen=True, kw_only=True)
class Presets:
    """List the systems of the paper, or show one, or its difference to another."""

    name: Annotated[str | None, tyro.conf.Positional] = None
    """A preset to show."""
    diff: str | None = None
    """Show the difference to this preset."""
    scale: str = "paper"
    """The scale at which both are shown."""


def main(args: list[str], console: Console) -> None:
    """Print a table."""
    known = parse(Presets, "presets", args)
    for what, name in (("preset", known.name), ("--diff", known.diff)):
        is_known = name is None or name in PRESETS
        require(is_known, f"{what} {name!r} is not one of {', '.join(PRESETS)}")
    if known.name is None:
        require(
            known.diff is None,
            f"--diff {known.diff} needs a preset to compare: agent57 presets NAME --diff "
            f"{known.diff}",
        )
        console.print(_all_presets(known.scale))
        return
    config = make_config(known.name, known.scale)
    if known.diff is None:
        table = Table("field", known.name)
        for name, value in flatten(config).items():
            table.add_row(name, str(value))
    else:
        table = Table("field", known.name, known.diff)
        other = make_config(known.diff, known.scale)
        for name, (ours, theirs) in difference(config, other).items():
            if name != "run.agent":
                table.add_row(name, str(ours), str(theirs))
    console.print(table if table.rows else "no difference")


def _all_presets(scale: str) -> Table:
    table = Table("preset", "differs from agent57 in")
    for name in PRESETS:
        changed = difference(make_config(name, scale), make_config("agent57", scale))
        fields = [f"{k} = {v[0]}" for k, v in changed.items() if k != "run.agent"]
        table.add_row(name, "\n".join(fields) or "-")
    return table
