"""Reads back what a run has written down, finished or not."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent57.config import Config, ConfigError, require
from agent57.ops.family import betas, gammas
from agent57.scores.published import suite_games
from agent57.storage.folder import CONFIG_FILE, read_config

METRICS_FILE = "metrics.jsonl"
EPISODES_FILE = "episodes.jsonl"

Points = list[tuple[float, float]]  # (frames, value)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file; a last line that is still being written is left out."""
    if not file.is_file():
        return []
    lines = file.read_text("utf-8").splitlines()
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines):
                raise ConfigError(f"{file} is damaged in line {number}") from None
    return rows


@dataclass(frozen=True, kw_only=True)
class RunHistory:
    """The records of one run."""

    path: Path
    config: Config
    metrics: list[dict[str, Any]]
    episodes: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> "RunHistory":
        """Read a run folder."""
        return cls(
            path=path,
            config=read_config(path),
            metrics=read_lines(path / METRICS_FILE),
            episodes=read_lines(path / EPISODES_FILE),
        )

    @property
    def env(self) -> str:
        """The task."""
        return self.config.env.name

    @property
    def x_label(self) -> str:
        """What frames are here."""
        return "emulator frames" if self.env in suite_games("atari57") else "agent steps"

    @property
    def latest(self) -> dict[str, Any]:
        """The last line of metrics; empty before the first."""
        return self.metrics[-1] if self.metrics else {}

    @cached_property
    def names(self) -> list[str]:
        """Every scalar that occurs."""
        return list(dict.fromkeys(name for row in self.metrics for name in row))

    def column(self, name: str) -> Points:
        """A scalar over frames, where it was written and is finite."""
        return [
            (row["frames"], row[name])
            for row in self.metrics
            if name in row and math.isfinite(row[name])
        ]

    @cached_property
    def arms(self) -> list[tuple[float, float]]:
        """Each arm's beta and gamma."""
        family = self.config.family
        return list(zip(betas(family).tolist(), gammas(family).tolist(), strict=True))

    @property
    def has_scores(self) -> bool:
        """Whether the evaluator has finished an evaluation episode."""
        return any(row["phase"] == "evaluate" for row in self.episodes)


def find_runs(paths: list[Path]) -> list[Path]:
    """The run folders among the paths and below them, each once, in order.

    Exported weights have a configuration too, but no records.
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
