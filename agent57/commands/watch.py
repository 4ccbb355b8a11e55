"""agent57 watch."""

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agent57.commands.options import parse
from agent57.config import ConfigError

PORT = 5757


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
    """Open the page in a browser."""
    wait: bool = False
    """Wait for runs that are not there yet."""


def main(args: list[str], console: Console) -> None:
    """Print the address and serve the page."""
    known = parse(Watch, "watch", args)
    try:
        from agent57.watch import server
    except ImportError as error:
        raise ConfigError(
            f"agent57 watch needs {error.name}: pip install 'agent57[watch]'"
        ) from None
    from agent57.watch.followed_runs import FollowedRuns

    runs = FollowedRuns(known.runs, wait=known.wait)
    with server.open_socket(known.host, known.port, PORT) as listener:
        token = server.new_token(known.host)
        page = server.address(listener, known.host, token)
        console.print(f"watch: {page}", highlight=False, soft_wrap=True)
        if known.open:
            webbrowser.open(page)
        server.serve(runs, listener, token)
