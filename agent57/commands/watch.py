"""The command `agent57 watch`."""

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
    """Run folders, or folders that hold runs (such as a suite)."""
    port: int | None = None
    """Port to listen on; by default 5757, or any free port if 5757 is taken."""
    host: str = "127.0.0.1"
    """Address to listen on. Beyond this machine the printed address holds a token."""
    open: bool = False
    """Open the page in a browser, where there is a screen."""
    wait: bool = False
    """Wait for runs that do not exist yet."""
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
    """Whether there is a screen for a browser; without one it would occupy the terminal."""
    is_linux = sys.platform.startswith("linux")
    return not is_linux or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def check_packages() -> None:
    """Refuse to serve a page if packages for it are missing."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        names = " and ".join(missing)
        raise ConfigError(f"the live page needs {names}: pip install 'agent57[watch]'")


class PageProcess:
    """Runs `agent57 watch` for a run that is about to begin, and ends it with the run.

    It is a separate process, so the page takes no time from the training's interpreter.
    """

    def __init__(self, path: Path) -> None:
        check_packages()
        # The training runs the environment's code too, so the user trusts it.
        options = ("--wait", "--open", "--trust")
        self._command = [sys.executable, "-m", "agent57", "watch", str(path), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "PageProcess":
        # Ctrl-C must reach only the run, which ends the page after saving itself.
        self._process = subprocess.Popen(self._command, start_new_session=os.name == "posix")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
