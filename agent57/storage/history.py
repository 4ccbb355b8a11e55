"""Reads the records of a run, finished or not."""

import contextlib
import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

from agent57.config import Config, ConfigError, require
from agent57.ops.family import betas, gammas
from agent57.scores.published import suite_games
from agent57.storage.files import open_plain
from agent57.storage.folder import CONFIG_FILE, read_config
from agent57.storage.journal_file import changed_lines, read_sums
from agent57.storage.segments import Segment, contents, segments

METRICS_FILE = "metrics.jsonl"
EPISODES_FILE = "episodes.jsonl"
_READ_ATTEMPTS = 3  # because a running training may seal a journal while it is read

EPISODE_TEXTS = {"source": ("actor", "evaluator"), "phase": ("train", "evaluate")}
EPISODE_NUMBERS = (
    "lane", "arm", "beta", "gamma", "frames", "length", "return", "intrinsic_return",
)  # fmt: skip

HEAD = ("frames", "steps", "updates", "seconds")  # numbers of a line of metrics that are finite

_NUMBERS = frozenset({int, float})  # types of JSON numbers; true and false are neither
_episode_numbers = itemgetter(*EPISODE_NUMBERS)

Row = dict[str, Any]
Points = list[tuple[float, float]]  # (frames, value)


def whole_rows(content: bytes, sums: frozenset[int] = frozenset()) -> tuple[list[Row], list[int]]:
    """Return the records among JSON lines, and the numbers of damaged lines.

    Lines are compared with their checksums, if there are any. A last line that is still being
    written is left out of both.
    """
    rows: list[Row] = []
    damaged: list[int] = []
    lines = content.splitlines(keepends=True)
    changed = changed_lines(lines, sums)
    for number, (line, row) in enumerate(zip(lines, _parsed(lines), strict=True), 1):
        if is_record(row) and number - 1 not in changed:
            rows.append(row)
        elif line.endswith(b"\n"):
            damaged.append(number)
    return rows, damaged


def _parsed(lines: list[bytes]) -> list[Any]:
    """Return the value of each JSON line; None for a line that is not JSON.

    Parsing all lines together, as one list, takes half the time. If this fails, or if a line is not
    one object, each line is parsed alone.
    """
    if all(line.startswith(b"{") and line.endswith(b"}\n") for line in lines):
        found = _json(b"[" + b",".join(lines) + b"]")
        if found is not None and len(found) == len(lines):
            return list(found)
    return [_json(line) for line in lines]


def _json(content: bytes) -> Any:  # noqa: ANN401
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def is_record(row: object) -> bool:
    """Whether this is a complete line of metrics or episode whose scalars are all numbers."""
    if not isinstance(row, dict):
        return False
    if not EPISODE_TEXTS.keys() & row.keys():
        return _are_numbers(row.values()) and _has_head(row)
    try:
        numbers = _episode_numbers(row)
    except KeyError:
        return False
    texts = all(row.get(name) in choices for name, choices in EPISODE_TEXTS.items())
    return texts and _are_numbers(numbers) and math.isfinite(row["frames"])


def _are_numbers(values: Collection[object]) -> bool:
    """Whether all values are numbers that fit in a float."""
    if not _NUMBERS.issuperset(map(type, values)):
        return False
    try:
        math.hypot(*values)  # type: ignore[arg-type]  # the fastest way to convert all of them
    except OverflowError:
        return False
    return True


def _has_head(row: Row) -> bool:
    """Whether a line of metrics has frames and finite counters; other numbers may be infinite."""
    return "frames" in row and all(math.isfinite(row.get(name, 0)) for name in HEAD)


def damage_text(file: Path, damaged: list[int]) -> str:
    """Return a message that says which lines of a journal cannot be read."""
    some = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
    return (
        f"{file} is damaged in line {some}"
        if len(damaged) < 2
        else (f"{file} is damaged in {len(damaged)} lines: {some}")
    )


def read_whole_lines(file: Path) -> tuple[list[Row], list[str]]:
    """Return the readable records of a journal, and messages about the damaged ones.

    If a training seals or compresses the journal meanwhile, it is read again.
    """
    for _ in range(_READ_ATTEMPTS):
        before = segments(file)
        with contextlib.suppress(FileNotFoundError):
            found = _read_journal(file, before)
            if segments(file) == before:
                return found
    return _read_journal(file, segments(file))


def _read_journal(file: Path, sealed: list[Segment]) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    damage: list[str] = []
    for segment in sealed:
        parts = list(contents(segment))
        damage += [f"{file.parent / wrong}" for _, wrong in parts if wrong]
        some, damaged = whole_rows(b"".join(content for content, _ in parts))
        rows += some
        damage += [damage_text(segment.path, damaged)] if damaged else []
    if file.exists():
        with open_plain(file) as opened:
            some, damaged = whole_rows(opened.read(), read_sums(file))
        rows += some
        damage += [damage_text(file, damaged)] if damaged else []
    return rows, damage


def read_lines(file: Path) -> list[Row]:
    """Return the records of a journal; raise `ConfigError` if one of them is damaged."""
    rows, damage = read_whole_lines(file)
    if damage:
        raise ConfigError(damage[0])
    return rows


@dataclass(frozen=True, kw_only=True)
class RunHistory:
    """The records of one run."""

    path: Path
    config: Config
    metrics: list[Row]
    episodes: list[Row]
    damage: tuple[str, ...] = ()  # messages about damaged records, which are left out

    @classmethod
    def read(cls, path: Path) -> "RunHistory":
        """Read a run folder."""
        config = read_config(path)
        metrics, metrics_damage = read_whole_lines(path / METRICS_FILE)
        episodes, episodes_damage = read_whole_lines(path / EPISODES_FILE)
        damage = (*metrics_damage, *episodes_damage)
        return cls(path=path, config=config, metrics=metrics, episodes=episodes, damage=damage)

    @property
    def env(self) -> str:
        """The task."""
        return self.config.env.name

    @property
    def x_label(self) -> str:
        """The unit of `frames` for this task."""
        return "emulator frames" if self.env in suite_games("atari57") else "agent steps"

    @property
    def latest(self) -> dict[str, Any]:
        """The last line of metrics; empty before the first line."""
        return self.metrics[-1] if self.metrics else {}

    @cached_property
    def names(self) -> list[str]:
        """Names of all scalars that occur in the metrics."""
        return list(dict.fromkeys(name for row in self.metrics for name in row))

    def column(self, name: str) -> Points:
        """Return a scalar over frames, where it was written and is finite."""
        return [
            (row["frames"], row[name])
            for row in self.metrics
            if name in row and math.isfinite(row[name])
        ]

    @cached_property
    def arms(self) -> list[tuple[float, float]]:
        """Beta and gamma of each arm."""
        family = self.config.family
        return list(zip(betas(family).tolist(), gammas(family).tolist(), strict=True))

    @property
    def best_arms(self) -> Points:
        """The evaluator's best arm over frames."""
        points = self.column("evaluator/best_arm")
        return [(frames, arm) for frames, arm in points if 0 <= arm < len(self.arms)]

    @property
    def has_scores(self) -> bool:
        """Whether the evaluator has finished an evaluation episode."""
        return any(row["phase"] == "evaluate" for row in self.episodes)


def find_runs(paths: list[Path]) -> list[Path]:
    """Return the run folders among the paths and below them, in order and without repeats.

    Folders of exported weights have a configuration but no records, so they are left out.
    """
    found: dict[Path, None] = {}
    for path in paths:
        require(path.is_dir(), f"{path} is not a folder")
        folders = sorted(file.parent for file in path.rglob(CONFIG_FILE))
        require(bool(folders), f"{path} holds no run: {CONFIG_FILE} is missing")
        inside = [folder for folder in folders if (folder / METRICS_FILE).exists()]
        require(bool(inside), f"{path} holds no records of a run: {METRICS_FILE} is missing")
        found |= dict.fromkeys(inside)
    return list(found)
