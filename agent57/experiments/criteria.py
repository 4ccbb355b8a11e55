"""Criteria, and their measures: each function returns a pure function of an experiment's results.

A contestant's number is the mean over its seeds.
"""

from collections.abc import Callable

import numpy as np

from agent57.experiments.experiment import Criterion, Outcome, Results

Measure = Callable[[Results], float]


def at_least(text: str, measure: Measure, target: float) -> Criterion:
    """Require a measured number to reach its target."""
    return Criterion(text=text, measure=measure, target=target)


def at_most(text: str, measure: Measure, target: float) -> Criterion:
    """Require a measured number not to exceed its target."""
    return Criterion(text=text, measure=measure, target=target, is_at_least=False)


def over_seeds(label: str, of_run: Callable[[Outcome], float]) -> Measure:
    """Measure the mean of a number over a contestant's seeds."""
    return lambda results: float(np.mean([of_run(outcome) for outcome in results[label]]))


def final_score(label: str) -> Measure:
    """Measure the mean return of the final policies."""
    return over_seeds(label, lambda outcome: outcome.score)


def training_seconds(label: str) -> Measure:
    """Measure the wall time of training, in seconds."""
    return over_seeds(label, lambda outcome: outcome.seconds)


def evaluator_score(label: str) -> Measure:
    """Measure the mean return of the last evaluation episodes of training."""
    return over_seeds(label, lambda outcome: outcome.evaluator)


def arm_score(label: str, arm: int) -> Measure:
    """Measure the final mean return of one arm; arm -1 is the most exploratory arm."""
    return over_seeds(label, lambda outcome: outcome.arm_scores[arm])


def frames_to(outcome: Outcome, level: float) -> float:
    """Return the frames until the mean evaluation return of a bin reaches `level`.

    For a run that never reaches it, return all its frames, which is a lower bound.
    """
    reached = np.flatnonzero(outcome.curve >= level)
    return float(outcome.bin_frames[reached[0] if len(reached) else -1])


def frames_behind(label: str, rival: str, level: float) -> Measure:
    """Measure a contestant's extra frames to reach `level`, minus two standard errors.

    The extra frames are the difference of means over seeds. The two standard errors make it
    unlikely that the result is positive by luck. With a single seed it is nan, which meets no
    target.
    """

    def of_run(outcome: Outcome) -> float:
        return frames_to(outcome, level)

    def measure(results: Results) -> float:
        late, early = (np.array([of_run(o) for o in results[name]]) for name in (label, rival))
        if min(len(late), len(early)) < 2:
            return float("nan")
        error_sq = late.var(ddof=1) / len(late) + early.var(ddof=1) / len(early)
        return float(late.mean() - early.mean() - 2 * np.sqrt(error_sq))

    return measure


def share_of_plays(
    label: str, is_counted: Callable[[float, float], bool], start: float, stop: float
) -> Measure:
    """Measure the share of the actors' episodes that some arms played in a part of training.

    `is_counted` takes an arm's beta and gamma. `start` and `stop` are fractions of training.
    """

    def of_run(outcome: Outcome) -> float:
        counted = [is_counted(*arm) for arm in outcome.arms]
        plays = outcome.plays[_part(len(outcome.plays), start, stop)]
        return float(plays[:, counted].sum() / max(plays.sum(), 1))

    return over_seeds(label, of_run)


def early_best_beta(label: str, level: float) -> Measure:
    """Measure beta of the arm with the highest return until the actors' mean return is `level`."""

    def of_run(outcome: Outcome) -> float:
        totals = (outcome.plays * np.nan_to_num(outcome.arm_returns)).sum(axis=1)
        is_earning = totals >= level * np.maximum(outcome.plays.sum(axis=1), 1)
        stop = is_earning.argmax() + 1 if is_earning.any() else len(is_earning)
        return _best_beta(outcome, slice(0, stop))

    return over_seeds(label, of_run)


def late_best_beta(label: str) -> Measure:
    """Measure beta of the arm with the highest return in the last fifth of training."""
    return over_seeds(
        label, lambda outcome: _best_beta(outcome, _part(len(outcome.plays), 0.8, 1.0))
    )


def minus(first: Measure, second: Measure) -> Measure:
    """Measure the first number minus the second."""
    return lambda results: first(results) - second(results)


def _best_beta(outcome: Outcome, bins: slice) -> float:
    plays, returns = outcome.plays[bins], np.nan_to_num(outcome.arm_returns[bins])
    total = plays.sum(axis=0)
    means = (plays * returns).sum(axis=0) / np.maximum(total, 1)
    return outcome.arms[int(np.where(total > 0, means, -np.inf).argmax())][0]


def _part(num_bins: int, start: float, stop: float) -> slice:
    return slice(round(start * num_bins), round(stop * num_bins))
