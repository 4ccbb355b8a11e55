"""Tells a watcher in another thread which environment call is under way, and since when."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_calls: dict[int, list[tuple[str, float]]] = {}  # by thread; a call may contain another


@contextmanager
def pending(text: str) -> Iterator[None]:
    """Mark a call of this thread as under way; `text` says whose, such as "lane 3: step"."""
    calls = _calls.setdefault(threading.get_ident(), [])
    calls.append((text, time.monotonic()))
    try:
        yield
    finally:
        calls.pop()


def pending_call(thread: int) -> tuple[str, float] | None:
    """Return the innermost call of a thread and when it began (monotonic seconds), if any."""
    calls = _calls.get(thread)
    return calls[-1] if calls else None
