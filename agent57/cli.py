"""The command line: finds the command, runs it, and turns mistakes into one line.

A command is a module of `agent57.commands`, imported only when it is called. So the answer to a
mistake comes at once.
"""

import importlib
import os
import sys
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from agent57.config import ConfigError

# Exit codes in addition to 0 (done) and the codes that commands return.
FAILURE = 1
USAGE_ERROR = 2
INTERRUPTED = 130

Command = Callable[[list[str], Console], int | None]  # takes arguments, returns its exit code

COMMANDS = {  # each is a module agent57.commands.<name>, or as in MODULES
    "train": "train an agent",
    "resume": "continue a run exactly where it stopped",
    "evaluate": "play episodes with a trained run, and film one",
    "watch": "serve a live page about runs that train or have ended",
    "report": "write one self-contained HTML page about runs",
    "suite": "train agents on many games and seeds, and score them",
    "scores": "show the paper's scores, and its table 1 recomputed",
    "export": "write the policy of a run as one small file, or its records as CSV",
    "reproduce": "repeat an experiment of the paper",
    "bench": "benchmark each part against the limits of this machine",
    "plan": "predict speed and needs of a run on machines of any size",
    "presets": "list the systems of the paper, or compare two",
}
MODULES = {"presets": "list_presets"}


def main() -> None:
    """Run `agent57 COMMAND [options]`."""
    sys.exit(run(sys.argv[1:]))


def run(args: list[str], console: Console | None = None, errors: Console | None = None) -> int:
    """Run a command and return its exit code. Mistakes of the user become one line."""
    console, errors = console or Console(), errors or Console(stderr=True)
    if not args or args[0] in ("-h", "--help"):
        _help(console)
        return 0
    if args[0] == "--version":
        from agent57 import __version__

        console.print(f"agent57 {__version__}", highlight=False)
        return 0
    try:
        return _command(args[0])(args[1:], console) or 0
    except ConfigError as error:
        return _failed(errors, error, USAGE_ERROR)
    except KeyboardInterrupt:
        return _failed(errors, "interrupted", INTERRUPTED)
    except SystemExit as stop:  # of --help
        return int(stop.code or 0)
    except OSError as error:
        if error.filename is None:  # no file that the user could check
            raise
        name = os.fsdecode(error.filename)
        return _failed(errors, f"{name}: {error.strerror or error}", FAILURE)
    except Exception as error:
        from agent57.runtime.run import RunFailed

        if not isinstance(error, RunFailed):
            raise
        return _failed(errors, error, FAILURE)


def _command(name: str) -> Command:
    if name not in COMMANDS:
        import difflib

        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(COMMANDS)}"
        raise ConfigError(f"unknown command {name!r}; {hint}")
    command: Command = importlib.import_module(f"agent57.commands.{MODULES.get(name, name)}").main
    return command


def _failed(errors: Console, message: object, code: int) -> int:
    errors.print(f"agent57: {message}", soft_wrap=True, markup=False, highlight=False)
    return code


def _help(console: Console) -> None:
    table = Table.grid(padding=(0, 3))
    for name, description in COMMANDS.items():
        table.add_row(f"  {name}", description)
    usage = "usage: agent57 COMMAND [options]     (agent57 COMMAND --help for options)\n"
    console.print(usage, markup=False, highlight=False)
    console.print(table)
