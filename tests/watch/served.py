"""A live page in a thread, on a free port."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent57.watch.followed_runs import FollowedRuns
from agent57.watch.server import LivePage, PageServer, open_socket


@contextmanager
def serving(
    *paths: Path, port: int | None = None, token: str | None = None, wait: bool = False
) -> Iterator[str]:
    """Serve a page about these folders; give its address."""
    listener = open_socket("127.0.0.1", port or 0, 0)
    server = PageServer(LivePage(FollowedRuns(list(paths), wait=wait), token))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def fetch(address: str, **headers: str) -> bytes:
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        content: bytes = answer.read()
    return content


def payload(address: str, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fetch(f"{address}/page?{query}"))
    return found
