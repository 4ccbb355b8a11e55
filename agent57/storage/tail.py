"""Follows the records of a run while another process writes them, without a lock.

A week of training leaves hundreds of megabytes of records. Long metrics are sampled line by line,
and only the evaluator's scores are taken from the episodes, so that opening a long run is quick.
"""

import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent57.config import Config
from agent57.scores.aggregate import WINDOW_EPISODES
from agent57.storage.files import open_plain
from agent57.storage.folder import CONFIG_FILE, read_config
from agent57.storage.history import EPISODES_FILE, METRICS_FILE, RunHistory, whole_rows
from agent57.storage.journal_file import read_sums
from agent57.storage.segments import Segment, contents, segments

Row = dict[str, Any]

MAX_ROWS = 1500  # lines of metrics that are kept in memory
SAMPLED_BYTES = 8_000_000  # longer metrics are sampled instead of read
CHUNK_BYTES = 16_000_000  # of the episodes, read at a time
EVALUATED = b'"evaluate"'  # occurs in lines of evaluation episodes only


class GrowingLines:
    """Reads whole lines of a growing file, each once. Starts over if the file was cut back."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.offset = 0  # bytes read so far
        self._last = b""  # the last bytes read: if they differ in the file, it was cut back

    def read(self, size: int = -1) -> tuple[bytes, bool]:
        """Return new whole lines, up to about `size` bytes, and whether the file starts over."""
        try:
            with open_plain(self._file) as file:
                restarts = not self._continues(file.fileno())
                if restarts:
                    self.offset, self._last = 0, b""
                file.seek(self.offset)
                content = file.read(size)
                if size > 0 and not content.endswith(b"\n"):
                    content += file.readline()
        except FileNotFoundError:
            restarts, content = self.offset > 0, b""
            self.offset, self._last = 0, b""
        content = content[: content.rfind(b"\n") + 1]
        self._advance(content)
        return content, restarts

    def skip_to_end(self) -> int:
        """Count everything up to the last line break as read; return its size in bytes."""
        with open_plain(self._file) as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - 1_000_000)
            file.seek(start)
            content = file.read()
        whole = content.rfind(b"\n") + 1
        self.offset = start + whole
        self._last = content[max(0, whole - 200) : whole]
        return self.offset

    def _continues(self, handle: int) -> bool:
        return os.pread(handle, len(self._last), self.offset - len(self._last)) == self._last

    def _advance(self, content: bytes) -> None:
        self.offset += len(content)
        self._last = (self._last + content[-200:])[-200:]


class GrowingJournal:
    """Reads whole lines of a growing journal, sealed segments first, each line once.

    Starts over if the journal was cut back.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines = GrowingLines(file)
        self._done = 0  # bytes of the journal before the growing file, all read
        self.damage: list[str] = []  # messages about damaged parts of segments

    def read(self, size: int) -> tuple[bytes, bool]:
        """Return new whole lines, about `size` bytes, and whether the journal starts over."""
        sealed = segments(self._file)
        end = sealed[-1].end if sealed else 0
        place = self._done + self._lines.offset  # lines read while they grew may be sealed now
        for segment in sealed:
            if segment.end > max(place, self._done):
                self._done, self._lines = segment.end, GrowingLines(self._file)
                content = self._read_segment(segment, place)
                if content:
                    return content, False
        if end > self._done:  # sealed where the last read ended
            self._done, self._lines = end, GrowingLines(self._file)
        content, restarts = self._lines.read(size)
        return self._start_over(size) if restarts or end < self._done else (content, False)

    def _start_over(self, size: int) -> tuple[bytes, bool]:
        self._done, self._lines, self.damage = 0, GrowingLines(self._file), []
        return self.read(size)[0], True

    def _read_segment(self, segment: Segment, place: int) -> bytes:
        """Return the content after a place, counted from the end, as damaged lines are missing."""
        parts = list(contents(segment))
        self.damage += [wrong for _, wrong in parts if wrong]
        content = b"".join(part for part, _ in parts)
        return content[max(0, len(content) - (segment.end - place)) :]


class RunTail:
    """The records of one run, which `poll` brings up to date."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._config_time = 0  # modification time of the configuration that was read
        self.config: Config = self._read_config()
        self._metrics_file = path / METRICS_FILE
        self._metrics = GrowingLines(self._metrics_file)
        self._episodes = GrowingJournal(path / EPISODES_FILE)
        self._rows: list[Row] = []
        self._evaluations: list[Row] = []
        self.is_sampled = False  # whether `_rows` holds only a part of the lines
        self._num_damaged = {METRICS_FILE: 0, EPISODES_FILE: 0}  # lines that were left out

    def poll(self) -> bool:
        """Read new records and configuration; return whether anything was new."""
        has_config = changed_at(self.path / CONFIG_FILE) != self._config_time
        if has_config:  # the run was resumed with more frames, or replaced by another run
            self.config = self._read_config()
        has_metrics, has_episodes = self._poll_metrics(), self._poll_episodes()
        return has_config or has_metrics or has_episodes

    def _read_config(self) -> Config:
        written = changed_at(self.path / CONFIG_FILE)
        config = read_config(self.path)
        self._config_time = written
        return config

    def history(self, first: float | None = None, last: float | None = None) -> RunHistory:
        """Return all records so far, or more detailed records between two numbers of frames."""
        rows, evaluations = self._rows, self._evaluations
        if first is not None and last is not None:
            if self.is_sampled:
                start = find_frames(self._metrics_file, first)
                end = find_frames(self._metrics_file, math.nextafter(last, math.inf))
                rows = parsed(b"".join(sample_lines(self._metrics_file, start, end, MAX_ROWS)))
            rows = [row for row in rows if first <= row["frames"] <= last]
            evaluations = between(evaluations, first, last)
        damage = tuple(
            f"{name}: {count} damaged lines are left out"
            for name, count in self._num_damaged.items()
            if count
        )
        damage += tuple(f"{wrong}: its records are left out" for wrong in self._episodes.damage)
        return RunHistory(
            path=self.path,
            config=self.config,
            metrics=list(rows),
            episodes=evaluations,
            damage=damage,
        )

    @property
    def latest(self) -> Row:
        """The last line of metrics; empty before the first line."""
        return self._rows[-1] if self._rows else {}

    def _poll_metrics(self) -> bool:
        is_first = not self._rows
        if is_first and size_of(self._metrics_file) > SAMPLED_BYTES:
            end = self._metrics.skip_to_end()
            sampled = b"".join(sample_lines(self._metrics_file, 0, end, MAX_ROWS))
            self._rows = self._parsed(sampled, METRICS_FILE)
            self.is_sampled = True
            return True
        content, restarts = self._metrics.read()
        if restarts:
            self._rows, self.is_sampled = [], False
        self._rows += self._parsed(content, METRICS_FILE)
        while len(self._rows) > 2 * MAX_ROWS:
            self._rows = self._rows[-1::-2][::-1]  # every second row, including the last
            self.is_sampled = True
        return bool(content) or restarts

    def _poll_episodes(self) -> bool:
        before, has_restarted = len(self._evaluations), False
        while True:
            content, restarts = self._episodes.read(CHUNK_BYTES)
            if restarts:
                self._evaluations, has_restarted = [], True
            if not content:
                break
            evaluated = b"".join(lines_with(EVALUATED, content))
            self._evaluations += self._parsed(evaluated, EPISODES_FILE)
        return has_restarted or len(self._evaluations) != before

    def _parsed(self, content: bytes, name: str) -> list[Row]:
        rows, damaged = whole_rows(content, read_sums(self.path / name))
        self._num_damaged[name] += len(damaged)
        return rows


def between(evaluations: list[Row], first: float, last: float) -> list[Row]:
    """Return the episodes between two numbers of frames, and earlier ones that means need."""
    rows = sorted(evaluations, key=lambda row: row["frames"])
    start = bisect_left(rows, first, key=lambda row: row["frames"])
    end = bisect_right(rows, last, key=lambda row: row["frames"])
    return rows[max(0, start - WINDOW_EPISODES + 1) : end]


def changed_at(file: Path) -> int:
    """Return a file's modification time in nanoseconds; 0 if there is no file."""
    return file.stat().st_mtime_ns if file.exists() else 0


def size_of(file: Path) -> int:
    """Return a file's size in bytes; 0 if there is no file."""
    return file.stat().st_size if file.exists() else 0


def parsed(content: bytes) -> list[Row]:
    """Return the records among JSON lines."""
    return whole_rows(content)[0]


def lines_with(mark: bytes, content: bytes) -> Iterator[bytes]:
    """Yield the lines that contain `mark`. Searching is far faster than parsing every line."""
    place = content.find(mark)
    while place >= 0:
        end = content.find(b"\n", place) + 1
        yield content[content.rfind(b"\n", 0, place) + 1 : end]
        place = content.find(mark, end)


def sample_lines(path: Path, start: int, end: int, count: int) -> list[bytes]:
    """Return whole lines at evenly spaced places between two offsets, including the last line."""
    with open_plain(path) as file:
        if end - start <= SAMPLED_BYTES:
            file.seek(start)
            return file.read(end - start).splitlines(keepends=True)
        lines: dict[int, bytes] = {}
        for i in range(count):
            file.seek(start + (end - start) * i // count)
            if file.tell() > start:
                file.readline()  # the rest of a line
            place = file.tell()
            if place < end and place not in lines:
                lines[place] = file.readline()
        file.seek(max(start, end - 1_000_000))
        lines[end] = file.read(end - file.tell()).splitlines(keepends=True)[-1]
    return list(lines.values())


def find_frames(path: Path, frames: float) -> int:
    """Return the offset of the first line with at least `frames` frames, by bisection."""
    with open_plain(path) as file:
        low, high = 0, file.seek(0, os.SEEK_END)
        while low < high:
            middle = (low + high) // 2
            file.seek(middle)
            if middle:
                file.readline()
            line = file.readline()
            if line.endswith(b"\n") and _frames(line) < frames:
                low = max(file.tell(), middle + 1)
            else:
                high = middle
        file.seek(low)
        line = file.readline()
        is_before = line.endswith(b"\n") and _frames(line) < frames
        return low + len(line) if is_before else low


def _frames(line: bytes) -> float:
    """Return the frames of a line; 0 for a damaged line."""
    rows = parsed(line)
    return rows[0]["frames"] if rows else 0.0
