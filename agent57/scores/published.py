"""The paper's published scores, human normalisation, and its aggregate table recomputed.

The numbers are package data: six agents on 57 games with deviations, the human and random scores
for normalisation, and five ablations on the ten most challenging games. `aggregate.py` computes the
scores of our own runs, with confidence intervals.

Human-normalised scores (HNS) are fractions here: 1 is human. Only the printed tables and `table1`
are in percent, as in the paper.
"""

import csv
import difflib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent57.config import ConfigError, require

Reference = Literal["agent57", "dqn_zoo"]
TableName = Literal["table1", "atari57", "challenging10"]

REFERENCES: tuple[Reference, ...] = get_args(Reference)
TABLES: tuple[TableName, ...] = get_args(TableName)
PERCENTILES = (40, 30, 20, 10, 5)
DQN_ZOO_RANDOM = MappingProxyType({"video_pinball": 16256.9})  # the only difference to the paper

AGENTS = MappingProxyType(
    {
        "agent57": "Agent57",
        "r2d2_bandit": "R2D2 (bandit)",
        "ngu": "NGU",
        "r2d2_retrace": "R2D2 (Retrace)",
        "r2d2": "R2D2",
        "muzero": "MuZero",
    }
)
ABLATIONS = MappingProxyType(
    {
        "r2d2_retrace_long_trace": "R2D2 (Retrace) long trace",
        "r2d2_retrace_high_gamma": "R2D2 (Retrace) high gamma",
        "ngu_sep_nets": "NGU sep. nets",
        "ngu_bandit": "NGU bandit",
        "agent57_small_trace": "Agent57 small trace",
    }
)
ABLATION_PARENTS = ("r2d2_retrace", "ngu", "agent57")  # the agents that the ablations modify
STATISTICS = MappingProxyType(
    {
        "capped_mean": "Capped mean",
        "games_above_human": "Games above human",
        "mean": "Mean",
        "median": "Median",
        **{f"percentile_{p}": f"{p}th percentile" for p in PERCENTILES},
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The human score, which is 1 after normalisation, and the random score, which is 0."""

    human: float
    random: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The score of one agent on one game.

    The paper does not define its deviation, and gives none for MuZero.
    """

    score: float
    deviation: float | None
    hns: float
    chns: float


@functools.cache
def _rows(name: TableName) -> Mapping[str, Mapping[str, float]]:
    """Return a table of the package data, by its first column."""
    text = resources.files("agent57.scores").joinpath("data", f"{name}.csv").read_text("utf-8")
    header, *lines = csv.reader(text.splitlines())
    rows = {
        key: MappingProxyType(dict(zip(header[1:], map(float, cells), strict=True)))
        for key, *cells in lines
    }
    return MappingProxyType(rows)


def suite_games(suite: Literal["atari57", "challenging10"]) -> tuple[str, ...]:
    """Return the games of a suite, with the names of their ROMs."""
    return tuple(_rows(suite))


def check_reference(reference: str) -> Reference:
    """Return the reference if it is known; otherwise raise `ConfigError`."""
    for known in REFERENCES:
        if reference == known:
            return known
    raise ConfigError(f"unknown reference {reference!r}; choose from {', '.join(REFERENCES)}")


def baseline(game: str, reference: Reference) -> Baseline:
    """Return a game's human and random score, from the paper or from dqn_zoo's `atari_data`."""
    check_reference(reference)
    rows = _rows("atari57")
    if game not in rows:
        close = difflib.get_close_matches(game, rows, n=1)
        hint = f"did you mean {close[0]}?" if close else "it is not one of the 57 Atari games"
        raise ConfigError(f"no human score for game {game!r}; {hint}")
    random = rows[game]["random"]
    if reference == "dqn_zoo":
        random = DQN_ZOO_RANDOM.get(game, random)
    return Baseline(human=rows[game]["human"], random=random)


def human_normalised(score: float, game: str, reference: Reference) -> float:
    """Return HNS = (score - random) / (human - random)."""
    scale = baseline(game, reference)
    return (score - scale.random) / (scale.human - scale.random)


def capped(hns: float) -> float:
    """Return CHNS: the HNS clipped to [0, 1]."""
    return min(max(hns, 0.0), 1.0)


def published(agent: str, game: str, reference: Reference) -> Published | None:
    """Return the paper's score of an agent or ablation; None for games that it did not play."""
    known = (*AGENTS, *ABLATIONS)
    require(agent in known, f"no published scores of {agent!r}; known are {', '.join(known)}")
    baseline(game, reference)  # an unknown game is an error, an unplayed one is not
    row = _rows("challenging10" if agent in ABLATIONS else "atari57").get(game)
    if row is None:
        return None
    hns = human_normalised(row[agent], game, reference)
    return Published(score=row[agent], deviation=row.get(f"{agent}_std"), hns=hns, chns=capped(hns))


def suite_statistics(hns: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """Return the rows of the paper's table 1 from one HNS per game, games along the last axis.

    All values are fractions, except the number of games. Percentiles interpolate linearly, as in
    the paper.
    """
    hns = np.asarray(hns, dtype=np.float64)
    percentiles = np.percentile(hns, PERCENTILES, axis=-1)
    return {
        "capped_mean": hns.clip(0, 1).mean(-1),
        "games_above_human": (hns > 1).sum(-1).astype(np.float64),
        "mean": hns.mean(-1),
        "median": np.median(hns, axis=-1),
        **{f"percentile_{p}": value for p, value in zip(PERCENTILES, percentiles, strict=True)},
    }


def published_hns(agent: str, games: Sequence[str], reference: Reference) -> NDArray[np.float64]:
    """Return the HNS of an agent on each of the games; NaN where the agent has no score."""
    results = [published(agent, game, reference) for game in games]
    return np.array([np.nan if result is None else result.hns for result in results])


def table1(reference: Reference) -> dict[str, dict[str, float]]:
    """Recompute the paper's table 1 from the scores per game: agent -> statistic, in percent."""
    games = suite_games("atari57")
    table = {}
    for agent in AGENTS:
        statistics = suite_statistics(published_hns(agent, games, reference))
        table[agent] = {
            name: float(value) * (1 if name == "games_above_human" else 100)
            for name, value in statistics.items()
        }
    return table


def published_table1() -> dict[str, dict[str, float]]:
    """Return the paper's table 1 as printed: agent -> statistic, in percent."""
    rows = _rows("table1").values()
    return {
        agent: {name: row[agent] for name, row in zip(STATISTICS, rows, strict=True)}
        for agent in AGENTS
    }


def reference_note(reference: Reference) -> str:
    """Return a note about the human and random scores in use, and how two sources differ."""
    check_reference(reference)
    means = {name: table1(name)["agent57"]["mean"] for name in REFERENCES}
    (game, theirs), ours = *DQN_ZOO_RANDOM.items(), _rows("atari57")
    source = {"agent57": "the paper's own table", "dqn_zoo": "the table of DQN Zoo"}[reference]
    return (
        f"Reference: {reference}, {source}. The two differ in 1 of {2 * len(ours)} numbers, the "
        f"random score of {game}: {ours[game]['random']:.1f} (agent57), {theirs:.1f} (dqn_zoo). "
        f"Agent57's mean is {means['agent57']:.2f} % with agent57's number, "
        f"{means['dqn_zoo']:.2f} % with dqn_zoo's."
    )


def scores_result(table: TableName, reference: Reference) -> dict[str, Any]:
    """Return the contents of a table, ready for JSON."""
    result: dict[str, Any] = {
        "table": table,
        "reference": check_reference(reference),
        "note": reference_note(reference),
    }
    if table == "table1":
        return result | {
            "unit": "percent",
            "recomputed": table1(reference),
            "published": published_table1(),
        }
    games = suite_games(table)
    agents = (*ABLATION_PARENTS, *ABLATIONS) if table == "challenging10" else tuple(AGENTS)
    statistics = {
        agent: suite_statistics(published_hns(agent, games, reference)) for agent in agents
    }
    return result | {
        "unit": "fraction",
        "games": {game: _game_result(game, agents, reference) for game in games},
        "statistics": {
            agent: {name: float(value) for name, value in values.items()}
            for agent, values in statistics.items()
        },
    }


def _game_result(game: str, agents: Sequence[str], reference: Reference) -> dict[str, Any]:
    results = {agent: published(agent, game, reference) for agent in agents}
    return asdict(baseline(game, reference)) | {
        "agents": {agent: asdict(result) for agent, result in results.items() if result}
    }
