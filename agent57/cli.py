"""The command line: parses, checks, then calls the part that does the work.

Heavy modules are imported by the command that needs them, so that mistakes are answered at once.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from agent57.config import Config, ConfigError
from agent57.presets import PRESETS, difference, flatten, make_config

# Idle OpenMP threads should sleep, not spin: spinning starves the emulators and other processes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

USAGE_ERROR = 2
FAILURE = 1


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an agent. Any field of the configuration may follow as --group.field value."""

    agent: str = "agent57"
    """The system of the paper to train; see `agent57 presets`."""
    env: str = "pong"
    """A game by the paper's name, random_coin, or a Gymnasium id with discrete actions."""
    scale: str = "laptop"
    """paper, laptop or tiny: the machine this is for."""
    frames: int | None = None
    """Emulator frames to train for on Atari, agent steps elsewhere; by default the scale's."""
    seed: int = 0
    """Of everything random in the run."""
    out: Path | None = None
    """The run folder; runs/<env> by default."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is the GPU if there is one."""


def train(args: list[str], console: Console) -> None:
    """agent57 train."""
    if "--help" in args or "-h" in args:
        tyro.cli(Train, prog="agent57 train", args=["--help"])
    known, rest = tyro.cli(Train, prog="agent57 train", args=args, return_unknown_args=True)
    config = make_config(known.agent, known.scale)
    run = replace(
        config.run,
        seed=known.seed,
        device=known.device,
        frames=config.run.frames if known.frames is None else known.frames,
    )
    config = replace(config, run=run, env=replace(config.env, name=known.env))
    config = apply_overrides(config, rest)
    out = known.out or Path("runs") / known.env.replace("/", "-")

    from agent57.runtime.run import start

    start(config, out, console)


def apply_overrides(config: Config, args: list[str]) -> Config:
    """The configuration with --group.field value options applied."""
    if not args:
        return config
    known = {f"--{name}" for name in flatten(config)}
    for arg in args:
        name = arg.split("=")[0]
        if name.startswith("--") and name.replace("-", "_").replace("__", "--", 1) not in known:
            import difflib

            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"unknown option {name}{hint}")
    return tyro.cli(
        Config,
        prog="agent57 train",
        args=args,
        default=config,
        config=(tyro.conf.AvoidSubcommands,),
    )


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Continue a run exactly where its last checkpoint left it."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    frames: int | None = None
    """Raise the frames to train for."""


def resume(args: list[str], console: Console) -> None:
    """agent57 resume."""
    known = tyro.cli(Resume, prog="agent57 resume", args=args)
    from agent57.runtime.run import resume as resume_run

    resume_run(known.run, known.frames, console)


@dataclass(frozen=True, kw_only=True)
class Presets:
    """List the systems of the paper, or show one, or its difference to another."""

    name: Annotated[str | None, tyro.conf.Positional] = None
    """A preset to show."""
    diff: str | None = None
    """Show the difference to this preset."""
    scale: str = "paper"
    """The scale at which both are shown."""


def presets(args: list[str], console: Console) -> None:
    """agent57 presets."""
    known = tyro.cli(Presets, prog="agent57 presets", args=args)
    if known.name is None:
        table = Table("preset", "differs from agent57 in")
        for name in PRESETS:
            changed = difference(
                make_config(name, known.scale), make_config("agent57", known.scale)
            )
            fields = [f"{k} = {v[0]}" for k, v in changed.items() if k != "run.agent"]
            table.add_row(name, "\n".join(fields) or "-")
        console.print(table)
        return
    config = make_config(known.name, known.scale)
    if known.diff is None:
        table = Table("field", known.name)
        for name, value in flatten(config).items():
            table.add_row(name, str(value))
    else:
        table = Table("field", known.name, known.diff)
        for name, (ours, theirs) in difference(
            config, make_config(known.diff, known.scale)
        ).items():
            if name != "run.agent":
                table.add_row(name, str(ours), str(theirs))
    console.print(table)


COMMANDS: dict[str, tuple[str, Callable[[list[str], Console], Any]]] = {
    "train": ("train an agent", train),
    "resume": ("continue a run exactly where it stopped", resume),
    "presets": ("list the systems of the paper, or compare two", presets),
}


def main() -> None:
    """agent57 COMMAND [options]."""
    args = sys.argv[1:]
    console = Console()
    if not args or args[0] in ("-h", "--help"):
        _help(console)
        return
    if args[0] == "--version":
        from agent57 import __version__

        console.print(f"agent57 {__version__}", highlight=False)
        return
    sys.exit(_call(args, console, Console(stderr=True)))


def _call(args: list[str], console: Console, errors: Console) -> int:
    """Run a command; its exit code. Mistakes of the user become one line."""
    if args[0] not in COMMANDS:
        names = ", ".join(COMMANDS)
        errors.print(f"agent57: unknown command {args[0]!r}; choose one of {names}", soft_wrap=True)
        return USAGE_ERROR
    try:
        COMMANDS[args[0]][1](args[1:], console)
    except ConfigError as error:
        errors.print(f"agent57: {error}", soft_wrap=True, markup=False, highlight=False)
        return USAGE_ERROR
    except KeyboardInterrupt:
        errors.print("agent57: interrupted", soft_wrap=True)
        return 130
    except Exception as error:
        from agent57.runtime.run import RunFailed

        if not isinstance(error, RunFailed):
            raise
        errors.print(f"agent57: {error}", soft_wrap=True, markup=False, highlight=False)
        return FAILURE
    return 0


def _help(console: Console) -> None:
    table = Table.grid(padding=(0, 3))
    for name, (description, _) in COMMANDS.items():
        table.add_row(f"  {name}", description)
    console.print("usage: agent57 COMMAND [options]     (agent57 COMMAND --help for options)\n")
    console.print(table)
