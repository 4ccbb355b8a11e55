"""Records of a run: metrics and episodes, as JSON lines and for TensorBoard."""

import dataclasses
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from agent57.storage.events import EventFile
from agent57.storage.files import RunFolderLost
from agent57.storage.folder import RunFolder
from agent57.storage.means import Means
from agent57.types import Episode

RECENT_EPISODES = 20  # actors' latest episodes that `episode/return` is the mean of
STATM = Path("/proc/self/statm")  # page counts of this process; the second is pages in RAM


def resident_bytes() -> int | None:
    """Return the bytes of this process that are in RAM; None if the system does not tell."""
    if not STATM.exists():
        return None
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


Row = dict[str, Any]  # one line of a journal


def ignore(_: Row) -> None:
    """Do nothing with a line."""


class Journal:
    """Writes metrics and episodes, and averages scalars between two lines of metrics.

    Each scalar is averaged over the times it was added. A scalar that was not added is left out of
    the line. `on_metrics` and `on_episode` get every line that is written.
    """

    def __init__(
        self,
        folder: RunFolder,
        log_frames: int,
        on_metrics: Callable[[Row], None] = ignore,
        on_episode: Callable[[Row], None] = ignore,
    ) -> None:
        self._folder = folder
        self._log_frames = log_frames
        self._on_metrics = on_metrics
        self._on_episode = on_episode
        self._events: EventFile | None = None  # of this session, from its first line on
        self._means = Means()
        self._recent: deque[float] = deque(maxlen=RECENT_EPISODES)
        self._seconds_before = 0.0  # of earlier sessions of this run
        self._started = time.monotonic()
        self._last_line = (0, 0.0)  # frames and seconds of the last line of metrics
        self.latest: dict[str, Any] = {}

    @property
    def seconds(self) -> float:
        """Training time of the run over all sessions, in seconds."""
        return self._seconds_before + time.monotonic() - self._started

    def add(self, scalars: dict[str, float]) -> None:
        """Add scalars to the averages of the next line."""
        self._means.add(scalars)

    def add_episode(self, episode: Episode) -> None:
        """Write one finished episode."""
        row = dataclasses.asdict(episode)
        row["return"] = row.pop("episode_return")
        self._folder.append("episodes.jsonl", row)
        if episode.source == "actor":
            self._recent.append(episode.episode_return)
            self.add(
                {
                    "episode/length": episode.length,
                    f"arm_intrinsic_return/{episode.arm}": episode.intrinsic_return,
                }
            )
        self._on_episode(row)

    def is_due(self, frames: int) -> bool:
        """Whether `frames` has passed a multiple of `log_frames` since the last line of metrics."""
        last_frames, _ = self._last_line
        return frames // self._log_frames > last_frames // self._log_frames

    def write(self, counters: dict[str, int], scalars: dict[str, float | None]) -> dict[str, Any]:
        """Write a line of metrics: counters, averages since the last line, and `scalars`."""
        frames, seconds = counters["frames"], self.seconds
        last_frames, last_seconds = self._last_line
        rate = (frames - last_frames) / max(seconds - last_seconds, 1e-9)
        means = dict(sorted(self._means.means().items()))
        recent = float(np.mean(self._recent)) if self._recent else None
        row: dict[str, Any] = {
            **counters,
            "seconds": seconds,
            "frames_per_second": rate,
            "memory/resident_bytes": resident_bytes(),
            "episode/return": recent,
            **scalars,
            **means,
        }
        row = {name: value for name, value in row.items() if value is not None}
        self._folder.append("metrics.jsonl", row)
        try:
            self._open_events().write(row, frames)
        except RunFolderLost:  # TensorBoard's copy was removed: the next line begins a new one
            self._events = None
        self._means.clear()
        self._last_line = (frames, seconds)
        self.latest = row
        self._on_metrics(row)
        return row

    def write_last(self, counters: dict[str, int], scalars: dict[str, float | None]) -> None:
        """Write a last line for a finished run, if it has more frames than the line before.

        This is called after the last checkpoint. A run that is resumed for more frames cuts this
        line off and goes on exactly.
        """
        if counters["frames"] > self._last_line[0]:
            self.write(counters, scalars)

    def _open_events(self) -> EventFile:
        if self._events is None:
            first_frames = self._last_line[0] + 1
            self._events = EventFile(self._folder.path / "tensorboard", first_frames)
        return self._events

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on, with the journals' sizes on disk."""
        return {
            **self._means.state_dict(),
            "recent": list(self._recent),
            "seconds": self.seconds,
            "last_line": list(self._last_line),
            "sizes": self._folder.flush(),
            "checksums": self._folder.checksums(),
            "latest": dict(self.latest),
        }

    def load_state_dict(self, state: dict[str, Any]) -> list[str]:
        """Go on from `state` and cut off later lines; return messages about damaged lines."""
        self._means.load_state_dict(state)
        self._recent = deque(map(float, state["recent"]), maxlen=RECENT_EPISODES)
        self._seconds_before = float(state["seconds"])
        self._started = time.monotonic()
        self._last_line = (int(state["last_line"][0]), float(state["last_line"][1]))
        self.latest = _checked(state["latest"])
        return self._folder.cut_back(state["sizes"], state.get("checksums", {}))

    def close(self) -> None:
        """Close the TensorBoard events."""
        if self._events is not None:
            self._events.close()


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    """Return a saved line of metrics; refuse it unless it is empty or has the counters."""
    needed = {"frames", "updates", "frames_per_second"} if row else set()
    if not needed <= row.keys() or not all(isinstance(x, int | float) for x in row.values()):
        raise ValueError("the latest line of metrics is damaged")
    return dict(row)
