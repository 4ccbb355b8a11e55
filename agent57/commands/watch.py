"""agent57 watch."""

import os
import subprocess
import sys
import webbrowser
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agent57.commands.options import find_modules_here, parse
from agent57.config import ConfigError

PORT = 5757
NEEDS = ("starlette", "uvicorn")


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Serve a live page about runs that train or have ended. Ctrl-C ends the page, never a run."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders, or folders that hold some (a suite)."""
    port: int | None = None
    """Port to listen on; 5757 by default, or any free one if 5757 is taken."""
    host: str = "127.0.0.1"
    """Address to listen on. Beyond this machine the printed address holds a token."""
    open: bool = False
    """Open the page in a browser, where there is a screen."""
    wait: bool = False
    """Wait for runs that are not there yet."""
    trust: bool = False
    """Draw lanes with the code of environments that are not installed packages."""


def main(args: list[str], console: Console) -> None:
    """Print the address and serve the page."""
    known = parse(Watch, "watch", args)
    check_packages()
    from agent57.watch import server
    from agent57.watch.followed_runs import FollowedRuns

    if known.trust:
        find_modules_here()
    runs = FollowedRuns(known.runs, wait=known.wait)
    with server.open_socket(known.host, known.port, PORT) as listener:
        token = server.new_token(known.host)
        page = server.address(listener, known.host, token)
        console.print(f"watch: {page}", markup=False, highlight=False, soft_wrap=True)
        if known.open and has_screen():
            webbrowser.open(page)
        server.serve(runs, listener, token, trust=known.trust)


def has_screen() -> bool:
    """Whether a browser has a screen to open on; in a bare terminal it would take the terminal."""
    is_linux = sys.platform.startswith("linux")
    return not is_linux or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def check_packages() -> None:
    """Refuse to serve a page without the packages that serve it."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise ConfigError(f"the live page needs {names}: pip install 'agent57[watch]'")


class PageProcess:
    """`agent57 watch` for a run that is about to begin, ended with the run.

    A process of its own: the page takes no time from the training's interpreter.
    """

    def __init__(self, path: Path) -> None:
        check_packages()
        # The training runs the code of the environment as well: the user has named it.
        options = ("--wait", "--open", "--trust")
        self._command = [sys.executable, "-m", "agent57", "watch", str(path), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "PageProcess":
        # Ctrl-C is for the run, which ends the page when it has saved itself.
        self._process = subprocess.Popen(self._command, start_new_session=os.name == "posix")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
