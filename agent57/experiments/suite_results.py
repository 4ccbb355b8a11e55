"""Results of a suite so far: scores per game and agent, and aggregates over games.

Everything is computed from the episode records of existing runs. Missing runs are counted, and
their scores are never guessed.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from agent57.scores.aggregate import (
    Bootstrap,
    aggregate,
    normalised_runs,
    paper_score,
    performance_profile,
    probability_of_improvement,
)
from agent57.scores.published import Reference, capped, human_normalised, suite_games
from agent57.storage.files import write_atomic
from agent57.storage.history import read_lines

Results = dict[str, Any]
Seeds = dict[str, dict[str, list[Path]]]  # agent -> game -> run folders, one per seed

RULES = {"paper": "seed_scores", "final": "seed_finals"}
THRESHOLDS = np.linspace(0, 2, 41)  # of the performance profile, in fractions of human


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The finished share of a suite."""

    planned: int
    finished: int
    scored: int  # runs with at least one evaluation episode

    @property
    def text(self) -> str:
        """The coverage in words."""
        if self.finished == self.planned == self.scored:
            return f"complete: {self.planned} runs"
        if self.finished == self.planned:
            rest = self.planned - self.scored
            return f"complete: {self.planned} runs, {rest} of them without an evaluation episode"
        return (
            f"partial: {self.finished} of {self.planned} runs finished, "
            f"{self.scored} with an evaluation episode"
        )


def suite_results(
    seeds: Seeds, games: Sequence[str], num_planned: int, num_finished: int, reference: Reference
) -> Results:
    """Return coverage, scores and aggregates of the runs so far."""
    scores: list[Results] = []
    unscored: list[Results] = []
    runs: dict[str, dict[str, dict[str, Sequence[float]]]] = {rule: {} for rule in RULES}
    num_scored = 0
    for agent, by_game in seeds.items():
        for game, folders in by_game.items():
            episodes = [read_lines(folder / "episodes.jsonl") for folder in folders]
            episodes = [rows for rows in episodes if any(r["phase"] == "evaluate" for r in rows)]
            if not episodes:
                unscored.append({"game": game, "agent": agent, "planned_seeds": len(folders)})
                continue
            num_scored += len(episodes)
            score = asdict(paper_score(episodes))
            for rule, field in RULES.items():
                runs[rule].setdefault(agent, {})[game] = score[field]
            scores.append(_row(agent, game, score, len(folders), reference))
    coverage = Coverage(planned=num_planned, finished=num_finished, scored=num_scored)
    known = [game for game in games if game in suite_games("atari57")]
    return {
        "games": list(games),
        "agents": list(seeds),
        "reference": reference,
        "coverage": {**asdict(coverage), "text": coverage.text},
        "scores": scores,
        "unscored": unscored,
        "aggregates": {rule: _aggregates(runs[rule], known, reference) for rule in RULES},
    }


def _row(
    agent: str, game: str, score: dict[str, Any], planned_seeds: int, reference: Reference
) -> Results:
    kept = ("score", "deviation", "at_frames", "final", "final_deviation", "seed_scores")
    num_seeds = len(score["num_episodes"])
    row = {"game": game, "agent": agent, "seeds": num_seeds, "planned_seeds": planned_seeds}
    row |= {name: score[name] for name in kept}
    if num_seeds == 1:  # one seed has no deviation
        row |= {"deviation": None, "final_deviation": None}
    row["episodes"] = min(score["num_episodes"])
    row["window_episodes"] = score["window_episodes"]
    row["last_frames"] = min(score["last_frames"])
    is_known = game in suite_games("atari57")
    for prefix, value in (("", score["score"]), ("final_", score["final"])):
        hns = human_normalised(value, game, reference) if is_known else None
        row[f"{prefix}hns"] = hns
        row[f"{prefix}chns"] = None if hns is None else capped(hns)
    return row


def _aggregates(
    scores: Mapping[str, Mapping[str, Sequence[float]]], games: Sequence[str], reference: Reference
) -> Results:
    """Return human-normalised aggregates of each agent over the games with a human score."""
    runs = {
        agent: normalised_runs({g: s for g, s in by_game.items() if g in games}, reference)
        for agent, by_game in scores.items()
    }
    runs = {agent: by_game for agent, by_game in runs.items() if by_game}
    rng = np.random.default_rng(0)
    fewer = Bootstrap(rng, num_resamples=2000)
    agents: Results = {}
    for agent, by_game in runs.items():
        whole = aggregate(by_game, games, Bootstrap(rng))
        profile = performance_profile(by_game, THRESHOLDS, fewer)
        agents[agent] = {
            "coverage": whole.coverage,
            "missing_games": list(whole.missing_games),
            "confidence": whole.confidence,
            "statistics": {name: asdict(value) for name, value in whole.statistics.items()},
            "profile": [asdict(value) for value in profile],
        }
    improvements = []
    for better, worse in permutations(runs, 2):
        if set(runs[better]) & set(runs[worse]):
            estimate = probability_of_improvement(runs[better], runs[worse], fewer)
            improvements.append({"better": better, "worse": worse, **asdict(estimate)})
    return {
        "agents": agents,
        "thresholds": THRESHOLDS.tolist(),
        "probability_of_improvement": improvements,
    }


def write_results(out: Path, results: Results) -> None:
    """Write results.json and results.csv."""
    text = json.dumps(results, indent=2, allow_nan=False)
    write_atomic(out / "results.json", text.encode())
    columns = [name for name in (results["scores"] or [{}])[0] if name != "seed_scores"]
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(results["scores"])
    write_atomic(out / "results.csv", table.getvalue().encode())
