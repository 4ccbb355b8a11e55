"""Small files in a run folder through which a training shows a few of its lanes.

The watcher touches `live/watched` now and then. While that sign is fresh, the training writes
`live/<source>.json`: seeds, actions and values of a few lanes, no pictures. Pictures are drawn by
the watcher. The training spends at most 1 / `REST` of its core time on this, however crowded the
machine, and nothing while nobody watches.
"""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = "live"
SIGN = "watched"
FRESH_SECONDS = 10.0  # an older sign does not count
ASK_SECONDS = 2.0  # between two touches of the sign
WRITE_SECONDS = 0.5  # between two writings
REST = 200  # core seconds of training for a core second of writing: 0.5 %
SHOWN_LANES = {"evaluator": 1, "actor": 3}  # by source

Lane = dict[str, Any]


class LaneFiles:
    """The watcher's side: asks for lanes and reads them."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._asked = 0.0

    def ask(self) -> None:
        """Leave a fresh sign that somebody watches; a folder that is not ours stays as it is."""
        if time.monotonic() - self._asked < ASK_SECONDS:
            return
        self._asked = time.monotonic()
        with contextlib.suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            (self._folder / SIGN).touch()

    def found(self) -> list[Path]:
        """The files of lanes."""
        return [self._folder / f"{source}.json" for source in SHOWN_LANES]

    def read(self) -> list[Lane]:
        """Return the lanes as they were last written, the evaluator's first."""
        lanes: list[Lane] = []
        for file in self.found():
            with contextlib.suppress(OSError, ValueError):
                lanes += json.loads(file.read_bytes())
        return lanes


class LaneWriter:
    """The training's side: writes lanes while somebody watches."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER
        self._next = 0.0  # on the clock
        self._next_core = 0.0  # in core time of this process

    def show(self, gather: Callable[[], dict[str, list[Lane]]]) -> None:
        """Write the lanes that `gather` returns, if somebody watches and the rest is over."""
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
        """Whether somebody has left a fresh sign."""
        try:
            age = time.time() - (self._folder / SIGN).stat().st_mtime
        except OSError:
            return False
        return age < FRESH_SECONDS

    def _write(self, source: str, lanes: list[Lane]) -> None:
        """Replace the file of a source in one step. A disk that refuses costs a picture only."""
        file = self._folder / f"{source}.json"
        partial = file.with_suffix(".partial")
        with contextlib.suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            partial.write_text(json.dumps(lanes))
            partial.replace(file)
