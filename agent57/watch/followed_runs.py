"""The runs that a live page shows: found below the named folders and followed while they train.

Run folders are only read, except for the sign that somebody watches (`LaneFiles`). The page refers
to a run by its key and never by a path, so it cannot request anything outside the named folders.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent57.config import ConfigError, require
from agent57.reports.page import RESULTS_FILE, page_sections, page_title, results_of_suite
from agent57.storage.folder import CONFIG_FILE
from agent57.storage.history import METRICS_FILE, find_runs
from agent57.storage.tail import RunTail
from agent57.video.lane_files import LaneFiles

SCAN_SECONDS = 5.0  # between two searches for new runs below the folders
QUIET_SECONDS = 120.0  # a run that has written nothing for this time counts as stopped
MAX_PAGES = 8  # number of built pages that are kept

Zoom = tuple[float, float] | None


@dataclass
class FollowedRun:
    """One run, its lanes, and how often its records have changed."""

    key: str
    tail: RunTail
    files: LaneFiles
    version: int = 0

    def poll(self) -> None:
        """Read new records; raise `ConfigError` if the folder is gone."""
        path = self.tail.path
        require((path / CONFIG_FILE).exists(), f"{path} is gone: records read earlier are shown")
        if self.tail.poll():
            self.version += 1

    def card(self) -> dict[str, Any]:
        """Describe the run in the list of runs."""
        run, latest = self.tail.config, self.tail.latest
        frames = latest.get("frames", 0)
        return {
            "key": self.key,
            "env": run.env.name,
            "agent": run.run.agent,
            "seed": run.run.seed,
            "frames": frames,
            "total": run.run.frames,
            "rate": latest.get("frames_per_second", 0.0),
            "state": self._state(frames),
        }

    def _state(self, frames: int) -> str:
        if frames >= self.tail.config.run.frames:
            return "finished"
        changes = [path.stat().st_mtime for path in self._signs() if path.exists()]
        is_quiet = time.time() - max(changes, default=0.0) > QUIET_SECONDS
        return "stopped" if is_quiet else "training"

    def _signs(self) -> tuple[Path, ...]:
        path = self.tail.path
        return path / METRICS_FILE, path / CONFIG_FILE, *self.files.found()


class FollowedRuns:
    """All runs in and below some folders. Not for use by several threads at once."""

    def __init__(self, paths: Sequence[Path], *, wait: bool = False) -> None:
        self._paths = [path.resolve() for path in paths]
        require(bool(self._paths), "name at least one run folder")
        if not wait:
            find_runs(list(paths))  # raises an error that names a wrong path
        self._runs: dict[str, FollowedRun] = {}
        self._problems: dict[str, str] = {}  # why a run cannot be shown
        self._next_scan = 0.0
        self._pages: dict[tuple[object, ...], bytes] = {}
        self.scan()
        unreadable = not self._runs and not wait
        require(not unreadable, next(iter(self._problems.values()), "no run can be read"))

    def scan(self) -> None:
        """Look for new runs, at most once in SCAN_SECONDS."""
        if time.monotonic() < self._next_scan:
            return
        known = {run.tail.path for run in self._runs.values()}
        for path in self._paths:
            for file in sorted(path.rglob(CONFIG_FILE)) if path.is_dir() else ():
                folder = file.parent
                if folder not in known and (folder / METRICS_FILE).exists():
                    self._add(path, folder)
        self._next_scan = time.monotonic() + SCAN_SECONDS

    def _add(self, root: Path, folder: Path) -> None:
        key = "/".join((root.name, *folder.relative_to(root).parts))
        while key in self._runs:
            key += "'"
        try:
            tail = RunTail(folder)
        except ConfigError as error:  # being written, damaged, or of another version
            self._problems[key] = str(error)
            return
        self._problems.pop(key, None)
        self._runs[key] = FollowedRun(key, tail, LaneFiles(folder))

    def chosen(self, keys: Sequence[str]) -> list[FollowedRun]:
        """Return the runs with these keys, or all runs if no key is known."""
        self.scan()
        runs = [self._runs[key] for key in keys if key in self._runs]
        return runs or list(self._runs.values())

    def versions(self, keys: Sequence[str]) -> tuple[tuple[str, int, str], ...]:
        """Update the chosen runs, and return a value that changes whenever their page changes."""
        runs = self.chosen(keys)
        for run in runs:
            try:
                run.poll()
                self._problems.pop(run.key, None)
            except (ConfigError, OSError) as error:  # the folder is gone, or was damaged meanwhile
                self._problems[run.key] = str(error)
        found = tuple((run.key, run.version, run.card()["state"]) for run in runs)
        return (
            found + tuple((key, 0, text) for key, text in self._problems.items()) + self._suites()
        )

    def _suites(self) -> tuple[tuple[str, int, str], ...]:
        """Return when the results of suites were written, which is after their last run ended."""
        files = [path / RESULTS_FILE for path in self._paths]
        return tuple(
            (RESULTS_FILE, file.stat().st_mtime_ns, "") for file in files if file.is_file()
        )

    def page(self, keys: Sequence[str], zoom: Zoom = None) -> bytes:
        """Return the payload of the page about the chosen runs as JSON."""
        name = (self.versions(keys), zoom)
        if name not in self._pages:
            while len(self._pages) >= MAX_PAGES:
                del self._pages[next(iter(self._pages))]
            self._pages[name] = self._built(keys, zoom)
        return self._pages[name]

    def _built(self, keys: Sequence[str], zoom: Zoom) -> bytes:
        runs = self.chosen(keys)
        histories = [run.tail.history() for run in runs]
        zoomed = [run.tail.history(*zoom) for run in runs] if zoom else None
        suite = None if keys else results_of_suite(self._paths)
        payload = {
            "title": page_title(histories),
            "runs": [run.card() for run in self._runs.values()],
            "shown": [run.key for run in runs],
            "problems": list(self._problems.values()),
            "sections": page_sections(histories, suite, zoomed=zoomed) if histories else [],
        }
        return json.dumps(payload, allow_nan=False, separators=(",", ":")).encode()
