"""The command `agent57 presets`."""

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from agent57.commands.options import parse
from agent57.config import Config, Kind, require
from agent57.presets import PRESETS, Layer, difference, flatten, layers, make_config


@dataclass(frozen=True, kw_only=True)
class Presets:
    """List the systems of the paper, show one system, or compare two."""

    name: Annotated[str | None, tyro.conf.Positional] = None
    """A preset to show."""
    diff: str | None = None
    """Show the difference to this preset."""
    scale: str = "paper"
    """The scale at which presets are shown."""
    env: str | None = None
    """Show the settings of a run on this task; by default those of a run on images."""


def main(args: list[str], console: Console) -> None:
    """Print a table."""
    known = parse(Presets, "presets", args)
    for what, name in (("preset", known.name), ("--diff", known.diff)):
        is_known = name is None or name in PRESETS
        require(is_known, f"{what} {name!r} is not one of {', '.join(PRESETS)}")
    require(
        known.name is not None or known.diff is None,
        f"--diff {known.diff} needs a preset to compare: agent57 presets NAME --diff {known.diff}",
    )
    make_config("agent57", known.scale)  # refuses a wrong scale before a task is made
    kind = _kind(known.env)
    if known.name is None:
        console.print(_all_presets(known.scale, kind))
    elif known.diff is None:
        _show(known.name, known.scale, kind, known.env, console)
    else:
        configs = [make_config(name, known.scale, kind) for name in (known.name, known.diff)]
        table = Table("field", known.name, known.diff)
        for field, (ours, theirs) in _changes(*configs).items():
            table.add_row(field, str(ours), str(theirs))
        console.print(table if table.rows else "no difference")


def _kind(env: str | None) -> Kind:
    if env is None:
        return "pixels"
    from agent57.defaults import observation_kind

    return observation_kind(env)


def _changes(config: Config, other: Config) -> dict[str, tuple[object, object]]:
    found = difference(config, other)
    return {field: values for field, values in found.items() if field != "run.agent"}


def _show(agent: str, scale: str, kind: Kind, env: str | None, console: Console) -> None:
    """Print every setting, the paper's value if it differs, and the layer that set it."""
    steps, paper = layers(agent, scale, kind), flatten(Config())
    values = flatten(make_config(agent, scale, kind))
    if env is not None:
        values["env.name"] = env
    table = Table()
    table.add_column("field", no_wrap=True)
    for column in ("value", "Agent57 in the paper", "set by"):
        table.add_column(column, overflow="fold")
    for field, value in values.items():
        differs = value != paper[field]
        origin = _origin(field, steps) if differs else ""
        table.add_row(field, str(value), str(paper[field]) if differs else "", origin)
    console.print(table)
    for step in steps:
        console.print(f"[bold]{step.name}[/]: {' '.join(step.why.split())}", highlight=False)


def _origin(field: str, steps: list[Layer]) -> str:
    """Return the name of the last layer that changed a field."""
    values = [flatten(Config())[field], *(flatten(step.config)[field] for step in steps)]
    changed = [
        step.name
        for step, before, after in zip(steps, values[:-1], values[1:], strict=True)
        if before != after
    ]
    return changed[-1] if changed else "options"  # such as --env and --scale


def _all_presets(scale: str, kind: Kind) -> Table:
    table = Table("preset", "differs from agent57 in")
    for name in PRESETS:
        changed = _changes(make_config(name, scale, kind), make_config("agent57", scale, kind))
        table.add_row(name, "\n".join(f"{k} = {v[0]}" for k, v in changed.items()) or "-")
    return table
