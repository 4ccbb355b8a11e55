"""Small files in a run folder through which a training shows a few of its lanes.

The watcher, `agent57 watch`, regularly touches the file `live/watched`. While this sign is fresh,
the training writes `live/<source>.json`: seeds, actions and values of a few lanes, no pictures. The
watcher draws the pictures. The training spends at most 1 / `REST` of its core time on this, and
nothing while nobody watches.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent57.storage.files import make_own_folder, not_followed, open_plain

FOLDER = "live"
SIGN = "watched"
FRESH_SECONDS = 10.0  # age from which a sign no longer counts
ASK_SECONDS = 2.0  # between two touches of the sign
WRITE_SECONDS = 0.5  # between two writes
REST = 200  # core seconds of training per core second of writing: 0.5 %
SHOWN_LANES = {"evaluator": 1, "actor": 3}  # number of lanes by source
MAX_BYTES = 16_000_000  # limit for a file of lanes, against foreign files
COUNTS = ("lane", "episode", "steps")  # whole numbers in the description of every lane

Lane = dict[str, Any]


class LaneFiles:
    """Asks a training for its lanes and reads them, for the watcher."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._asked = 0.0

    def ask(self) -> None:
        """Leave a fresh sign that somebody watches. Errors, as in a foreign folder, are ignored."""
        if time.monotonic() - self._asked < ASK_SECONDS:
            return
        self._asked = time.monotonic()
        with contextlib.suppress(OSError):
            make_own_folder(self._folder)
            with open(self._folder / SIGN, "ab", opener=not_followed) as sign:
                os.utime(sign.fileno())

    def found(self) -> list[Path]:
        """Return the paths of the files of lanes."""
        return [self._folder / f"{source}.json" for source in SHOWN_LANES]

    def read(self) -> list[Lane]:
        """Return the lanes as last written, the evaluator's lanes first."""
        lanes: list[Lane] = []
        for file in self.found():
            with contextlib.suppress(OSError, ValueError, RecursionError):
                with open_plain(file) as opened:
                    found = json.loads(opened.read(MAX_BYTES))
                lanes += filter(_is_lane, found if isinstance(found, list) else ())
        return lanes


def _is_lane(lane: object) -> bool:
    """Whether this object describes a lane; a foreign file may hold anything."""
    return (
        isinstance(lane, dict)
        and lane.get("source") in tuple(SHOWN_LANES)
        and all(type(lane.get(name)) is int for name in COUNTS)
    )


class LaneWriter:
    """Writes the lanes of a training while somebody watches."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._next = 0.0  # earliest next write, on the monotonic clock
        self._next_core = 0.0  # earliest next write, in core time of this process

    def show(self, gather: Callable[[], dict[str, list[Lane]]]) -> None:
        """Write the lanes that `gather` returns, if somebody watches and the pause is over."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + WRITE_SECONDS
        if time.process_time() < self._next_core or not self.is_watched:
            return
        started = time.thread_time()
        for source, lanes in gather().items():
            self._write(source, lanes)
        self._next_core = time.process_time() + REST * (time.thread_time() - started)

    @property
    def is_watched(self) -> bool:
        """Whether the watcher has left a fresh sign."""
        try:
            age = time.time() - (self._folder / SIGN).stat().st_mtime
        except OSError:
            return False
        return abs(age) < FRESH_SECONDS

    def _write(self, source: str, lanes: list[Lane]) -> None:
        """Replace the file of a source in one step. If the disk refuses, only a picture is lost."""
        file = self._folder / f"{source}.json"
        partial = file.with_suffix(".partial")
        with contextlib.suppress(OSError):
            make_own_folder(self._folder)
            with open(partial, "w", opener=not_followed) as opened:
                json.dump(lanes, opened)
            partial.replace(file)
