"""Scores of evaluation episodes by the paper's rule, and aggregates of scores.

The aggregates are rliable's (Agarwal et al., 2021): interquartile mean, optimality gap,
performance profiles and probability of improvement, with stratified bootstrap intervals. They are
implemented here because rliable draws from numpy's global generator, needs the same number of runs
for all games, and depends on five more packages. The tests compare them with rliable's numbers.

The runs of an algorithm are a mapping from game to the normalised scores of its runs. In an
unfinished suite, games may have different numbers of runs. Every game still has the same weight.
This module neither reads run folders nor draws figures.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent57.config import ConfigError, require
from agent57.scores.published import Reference, capped, human_normalised, suite_statistics

Floats = NDArray[np.float64]
Runs = Mapping[str, Sequence[float] | Floats]  # game -> normalised score of each run

WINDOW_EPISODES = 50  # length of the window in the paper's section on its results
CHUNK_SCORES = 1_000_000  # resampled scores held in memory at a time


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Settings of bootstrap intervals: a generator, the number of resamples, the confidence."""

    rng: np.random.Generator
    num_resamples: int = 10_000
    confidence: float = 0.95

    def __post_init__(self) -> None:
        level, number = self.confidence, self.num_resamples
        require(0 < level < 1, f"confidence must lie in (0, 1), got {level}")
        require(number > 0, f"num_resamples must be positive, got {number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A statistic with its bootstrap interval, which is None if each game was run once."""

    point: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """The scores of one algorithm on a suite, as fractions of the human score: 1 is human."""

    hns: dict[str, float]  # human-normalised score per game, mean over its runs
    chns: dict[str, float]  # `hns` clipped to [0, 1]
    num_runs: dict[str, int]  # per game
    missing_games: tuple[str, ...]  # games of the suite without a run
    statistics: dict[str, Estimate]  # the rows of the paper's table 1, iqm, optimality_gap
    confidence: float
    num_resamples: int

    @property
    def is_complete(self) -> bool:
        """Whether every game of the suite has a run."""
        return not self.missing_games

    @property
    def coverage(self) -> str:
        """The finished share of the suite, in words."""
        num_games, counts = len(self.hns), self.num_runs.values()
        runs = str(min(counts)) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
        of_suite = f"{num_games} of {num_games + len(self.missing_games)} games"
        return f"{of_suite}, {runs} run{'' if runs == '1' else 's'} each"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperScore:
    """The score of one game by the paper's rule, in the game's points."""

    score: float  # maximum over training of the mean over seeds
    deviation: float  # standard deviation over seeds at the maximum
    at_frames: float  # frames at the maximum
    seed_scores: tuple[float, ...]  # value of each seed at the maximum; their mean is the score
    final: float  # mean over seeds of the last window
    final_deviation: float
    seed_finals: tuple[float, ...]
    window_episodes: int
    num_episodes: tuple[int, ...]  # evaluation episodes of each seed
    last_frames: tuple[float, ...]  # of each seed's last evaluation episode
    frames: tuple[float, ...]  # frames of the points of `curve`
    curve: tuple[float, ...]  # mean over seeds during training

    @property
    def is_window_full(self) -> bool:
        """Whether each seed has played enough episodes to fill the window once."""
        return min(self.num_episodes) >= self.window_episodes


def plus_minus(mean: float, deviation: float | None, num_seeds: int) -> str:
    """Write a mean with its deviation over seeds, which a single seed does not have.

    Means between 0 and 1 get three decimals, because many tasks pay at most 1 per episode.
    """
    digits = 3 if 0 < abs(mean) < 1 else 1
    is_known = deviation is not None and num_seeds > 1
    return f"{mean:,.{digits}f}" + (f" ± {deviation:,.{digits}f}" if is_known else "")


def iqm(scores: Floats) -> Floats:
    """Return the interquartile mean: the mean of the middle half of `[..., runs, games]` scores."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return np.asarray(flat[..., cut : flat.shape[-1] - cut].mean(-1))


def optimality_gap(scores: Floats, target: float = 1.0) -> Floats:
    """Return the mean shortfall E (target - s)^+ of all `[..., runs, games]` scores."""
    return np.asarray(target - np.minimum(scores, target).mean((-2, -1)))


def all_statistics(scores: Floats) -> dict[str, Floats]:
    """Return all aggregates of `[..., runs, games]` scores.

    The paper's table 1 aggregates means over runs. rliable's aggregates are over all runs.
    """
    paper = suite_statistics(scores.mean(-2))
    return paper | {"iqm": iqm(scores), "optimality_gap": optimality_gap(scores)}


def normalised_runs(
    scores: Mapping[str, Sequence[float]], reference: Reference
) -> dict[str, Floats]:
    """Convert scores in the games' points to human-normalised scores, run by run."""
    return {
        game: np.array([human_normalised(score, game, reference) for score in runs])
        for game, runs in scores.items()
    }


def aggregate(runs: Runs, suite: Sequence[str], bootstrap: Bootstrap) -> Aggregate:
    """Return all aggregates of one algorithm over those games of a suite that it has run."""
    unknown = [game for game in runs if game not in suite]
    require(not unknown, f"games that are not in the suite: {', '.join(unknown)}")
    played = {game: runs[game] for game in suite if game in runs and len(runs[game]) > 0}
    names = list(all_statistics(np.zeros((1, 1))))
    estimates = interval_estimates(
        played,
        lambda scores: np.stack(list(all_statistics(scores).values()), axis=-1),
        bootstrap,
    )
    hns = {game: float(np.mean(scores)) for game, scores in played.items()}
    return Aggregate(
        hns=hns,
        chns={game: capped(score) for game, score in hns.items()},
        num_runs={game: len(scores) for game, scores in played.items()},
        missing_games=tuple(game for game in suite if game not in played),
        statistics=dict(zip(names, estimates, strict=True)),
        confidence=bootstrap.confidence,
        num_resamples=bootstrap.num_resamples,
    )


def performance_profile(runs: Runs, thresholds: ArrayLike, bootstrap: Bootstrap) -> list[Estimate]:
    """Return the fraction of runs that score above each threshold (rliable's distribution)."""
    levels = np.asarray(thresholds, dtype=np.float64)

    def fractions(scores: Floats) -> Floats:
        return np.stack([(scores > level).mean((-2, -1)) for level in levels], axis=-1)

    return interval_estimates(runs, fractions, bootstrap)


def probability_of_improvement(better: Runs, worse: Runs, bootstrap: Bootstrap) -> Estimate:
    """Return P(a run of `better` beats a run of `worse`), averaged over their common games.

    For each game it is the Mann-Whitney U statistic divided by the number of pairs. A tie counts
    one half.
    """
    common = [game for game in better if game in worse]
    require(bool(common), "the two algorithms have no game in common")
    first, second = ({game: runs[game] for game in common} for runs in (better, worse))
    point = _win_rate(equal_weight(first), equal_weight(second))
    if max(len(scores) for runs in (first, second) for scores in runs.values()) == 1:
        return Estimate(point=float(point), low=None, high=None)
    rngs = bootstrap.rng.spawn(2)  # each side's draws must not depend on the other's size
    draws = zip(
        *(
            resampled(runs, bootstrap.num_resamples, rng, chunk=1000)
            for runs, rng in zip((first, second), rngs, strict=True)
        ),
        strict=True,
    )
    values = np.concatenate([_win_rate(x, y) for x, y in draws])
    low, high = _percentile_interval(values, bootstrap.confidence)
    return Estimate(point=float(point), low=float(low), high=float(high))


def _win_rate(x: Floats, y: Floats) -> Floats:
    """Return the mean of [x > y] + [x = y] / 2 over games and pairs, for `[..., runs, games]`."""
    total = sum(
        ((run[..., None, :] > y) + 0.5 * (run[..., None, :] == y)).mean((-2, -1))
        for run in np.moveaxis(x, -2, 0)
    )
    return np.asarray(total / x.shape[-2])


def interval_estimates(
    runs: Runs,
    statistics: Callable[[Floats], Floats],
    bootstrap: Bootstrap,
) -> list[Estimate]:
    """Return statistics of the runs with stratified bootstrap percentile intervals.

    `statistics` maps scores `[..., runs, games]` to values `[..., statistics]`.
    """
    points = statistics(equal_weight(runs))
    if max(len(scores) for scores in runs.values()) == 1:
        return [Estimate(point=float(point), low=None, high=None) for point in points]
    draws = resampled(runs, bootstrap.num_resamples, bootstrap.rng)
    values = np.concatenate([statistics(draw) for draw in draws])
    lows, highs = _percentile_interval(values, bootstrap.confidence)
    return [
        Estimate(point=float(point), low=float(low), high=float(high))
        for point, low, high in zip(points, lows, highs, strict=True)
    ]


def _percentile_interval(values: Floats, confidence: float) -> Floats:
    return np.asarray(np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0))


def equal_weight(runs: Runs) -> Floats:
    """Return scores `[runs, games]`, with runs repeated until all games have equally many."""
    columns = _columns(runs)
    height = math.lcm(*map(len, columns))
    return np.stack([np.repeat(column, height // len(column)) for column in columns], axis=-1)


def resampled(
    runs: Runs, num_resamples: int, rng: np.random.Generator, chunk: int | None = None
) -> Iterator[Floats]:
    """Yield stratified bootstrap draws `[chunk, runs, games]`: runs per game with replacement.

    For a game with n runs, n runs are drawn and then repeated as in `equal_weight`.
    """
    columns = _columns(runs)
    height = math.lcm(*map(len, columns))
    games_of = defaultdict(list)  # number of runs -> games with so many runs
    for game, column in enumerate(columns):
        games_of[len(column)].append(game)
    chunk = chunk or max(1, CHUNK_SCORES // (height * len(columns)))
    for start in range(0, num_resamples, chunk):
        size = min(chunk, num_resamples - start)
        draw = np.empty((size, height, len(columns)))
        for count, games in games_of.items():
            scores = np.stack([columns[game] for game in games], axis=-1)  # [count, games]
            picks = rng.integers(count, size=(size, *scores.shape))
            drawn = scores[picks, np.arange(len(games))]
            draw[:, :, games] = np.repeat(drawn, height // count, axis=1)
        yield draw


def _columns(runs: Runs) -> list[Floats]:
    require(bool(runs), "no finished runs to aggregate")
    for game, scores in runs.items():
        require(len(scores) > 0, f"game {game!r} has no runs")
        require(bool(np.isfinite(scores).all()), f"game {game!r} has a score that is not finite")
    return [np.asarray(scores, dtype=np.float64) for scores in runs.values()]


def paper_score(
    seeds: Sequence[Iterable[Mapping[str, Any]]], window_episodes: int = WINDOW_EPISODES
) -> PaperScore:
    """Return the paper's score of one game, from the episode records of each seed.

    A seed's value is the mean return of its last 50 evaluation episodes, at the frame where the
    last of them ended. The score is the maximum over training of the mean over seeds. The paper
    leaves some details open:

    - Seeds finish episodes at different frames. Each curve is interpolated linearly on the union of
      all seeds' frames. The mean of such curves has its maximum on this grid, so it is exact.
    - The grid starts where every seed has a window, so each value is a mean over all seeds. After
      its last episode, at `last_frames`, a seed keeps its last value.
    - Only full windows count, because shorter windows would let lucky episodes win the maximum. A
      seed with fewer episodes has one window with all of them (see `is_window_full`).
    - The deviation is the population's over seeds. The paper does not say which it uses. But its
      2666.67 +- 235.70 in Montezuma's Revenge fits three seeds with 2500, 2500 and 3000.
    """
    require(window_episodes > 0, f"window_episodes must be positive, got {window_episodes}")
    require(len(seeds) > 0, "no seeds to score")
    episodes = [_evaluation_episodes(rows, seed) for seed, rows in enumerate(seeds)]
    curves = [windowed_mean(frames, returns, window_episodes) for frames, returns in episodes]
    start = max(frames[0] for frames, _ in curves)
    grid = np.unique(np.concatenate([frames for frames, _ in curves]))
    grid = grid[grid >= start]
    values = np.stack([np.interp(grid, frames, means) for frames, means in curves])
    mean = values.mean(0)
    best = int(np.argmax(mean))
    finals = values[:, -1]
    return PaperScore(
        score=float(mean[best]),
        deviation=float(values[:, best].std()),
        at_frames=float(grid[best]),
        seed_scores=tuple(values[:, best].tolist()),
        final=float(finals.mean()),
        final_deviation=float(finals.std()),
        seed_finals=tuple(finals.tolist()),
        window_episodes=window_episodes,
        num_episodes=tuple(len(returns) for _, returns in episodes),
        last_frames=tuple(float(frames[-1]) for frames, _ in episodes),
        frames=tuple(grid.tolist()),
        curve=tuple(mean.tolist()),
    )


def windowed_mean(frames: Floats, returns: Floats, window_episodes: int) -> tuple[Floats, Floats]:
    """Return frames and the mean return of the last `window_episodes` episodes at these frames.

    With fewer episodes, return the mean of all at the last frame. If several windows end at the
    same frame, the last one counts.
    """
    window = min(window_episodes, len(returns))
    means = np.lib.stride_tricks.sliding_window_view(returns, window).mean(-1)
    ends = frames[window - 1 :]
    is_last = np.append(ends[1:] != ends[:-1], True)
    return ends[is_last], means[is_last]


def _evaluation_episodes(rows: Iterable[Mapping[str, Any]], seed: int) -> tuple[Floats, Floats]:
    """Return frames and returns of a seed's evaluation episodes, in the order of their frames."""
    pairs = [
        (row["frames"], row["return"])
        for row in rows
        if row["source"] == "evaluator" and row["phase"] == "evaluate"
    ]
    if not pairs:
        raise ConfigError(f"seed {seed} has no evaluation episodes yet")
    frames, returns = np.array(pairs, dtype=np.float64).T
    order = np.argsort(frames, kind="stable")
    return frames[order], returns[order]
