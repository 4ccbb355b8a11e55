"""Marks of health: symptoms of a run that the latest metrics show.

A mark holds the symptom, the numbers that show it, and the advice (`advice.py`). Nothing here
changes a run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from agent57.reports.advice import BY_SYMPTOM
from agent57.storage.history import RunHistory

Mark = dict[str, Any]

RECENT_LINES = 20  # latest lines of metrics, whose mean is judged
MIN_UPDATES = 100  # with fewer updates, gradients and priorities say little


@dataclass(frozen=True)
class Recent:
    """The mean of each metric over a run's latest lines."""

    run: RunHistory
    values: dict[str, float]

    def __getitem__(self, name: str) -> float:
        """Return a metric; nan, which fails every comparison, if it was not written."""
        return self.values.get(name, float("nan"))

    def per_arm(self, name: str) -> np.ndarray:
        """Return a metric of every arm, nan where it was not written."""
        return np.array([self[f"{name}/{arm}"] for arm in range(len(self.run.arms))])

    @property
    def progress(self) -> float:
        """The share of the run's frames that have been played."""
        return float(self.run.latest.get("frames", 0)) / self.run.config.run.frames


def recent(run: RunHistory) -> Recent:
    """Average the latest lines of metrics."""
    rows = run.metrics[-RECENT_LINES:]
    names = {name for row in rows for name in row}
    values = {name: float(np.mean([row[name] for row in rows if name in row])) for name in names}
    return Recent(run=run, values=values)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A symptom of `advice.py`, a test whether a run shows it, and the numbers that show it."""

    shows: Callable[[Recent], bool]
    evidence: Callable[[Recent], str]
    healthy: str = ""  # range of these numbers
    level: Literal["hint", "warning"] = "warning"


def _learning(now: Recent) -> bool:
    return now["updates"] >= MIN_UPDATES


def _clipped(now: Recent) -> dict[str, float]:
    return {n: v for n, v in now.values.items() if n.startswith("clipped/")}


def _neglect(now: Recent) -> float:
    """Return arm 0's share of plays over its share of batches."""
    plays = np.nansum(now.per_arm("arm_plays"))
    return float(now["arm_plays/0"] / plays / max(now["batch_share/0"], 1e-6)) if plays else 0.0


def _lead(now: Recent) -> float:
    return now["action_gap/0"] / max(now["td/extrinsic/0"], 1e-12)


def _spread(now: Recent) -> float:
    errors = now.per_arm("td/extrinsic")
    errors = errors[np.isfinite(errors) & (errors > 0)]
    return float(errors.max() / errors.min()) if len(errors) > 1 else 1.0


def _mean_error(now: Recent) -> float:
    errors = now.per_arm("td/extrinsic")
    return float(errors[np.isfinite(errors)].mean()) if np.isfinite(errors).any() else float("nan")


RULES: dict[str, Rule] = {  # by symptom
    "no arm ever earns anything": Rule(
        shows=lambda now: (
            now.progress > 0.1
            and bool(now.run.episodes)
            and not any(row.get("reward/extrinsic") for row in now.run.metrics)
        ),
        evidence=lambda now: f"reward/extrinsic is 0 after {now.progress:.0%} of the run",
    ),
    "exploratory arms stand still": Rule(
        shows=lambda now: now["curiosity/familiar"] > 0.95,
        evidence=lambda now: f"curiosity/familiar is {now['curiosity/familiar']:.2f}, near 1",
    ),
    "going in circles pays": Rule(
        shows=lambda now: now["curiosity/memory_fill"] > 0.999,
        evidence=lambda _: "curiosity/memory_fill is 1: the episodic memory is full",
    ),
    "life-long novelty is off": Rule(
        shows=lambda now: now["curiosity/modulation_at_1"] > 0.999,
        evidence=lambda _: "curiosity/modulation_at_1 is 1 on every step",
        level="hint",
    ),
    "some arms are not learned from": Rule(
        shows=lambda now: _learning(now) and _neglect(now) > 3,
        evidence=lambda now: (
            f"arm 0 is played {_neglect(now):.1f} times as often as it is in batches"
        ),
        healthy="below 3",
        level="hint",
    ),
    "values are learned, behaviour is not": Rule(
        shows=lambda now: _learning(now) and _lead(now) < 1,
        evidence=lambda now: (
            f"the best action of arm 0 leads by {_lead(now):.2f} of the error of its value"
        ),
        healthy="above 1",
    ),
    "greedy actions flip": Rule(
        shows=lambda now: _learning(now) and now.progress > 0.1 and now["churn/values"] > 0.15,
        evidence=lambda now: (
            f"churn/values is {now['churn/values']:.2f} (healthy after the start: below 0.1)"
        ),
        level="hint",
    ),
    "one arm's errors dwarf the others'": Rule(
        shows=lambda now: _learning(now) and _spread(now) > 10,
        evidence=lambda now: f"the largest td/extrinsic is {_spread(now):.0f} times the smallest",
        healthy="the same order",
    ),
    "gradients are cut all the time": Rule(
        shows=lambda now: _learning(now) and max(_clipped(now).values(), default=0) > 1 / 3,
        evidence=lambda now: ", ".join(
            f"{name} is {value:.2f}" for name, value in _clipped(now).items() if value > 1 / 3
        ),
        healthy="below 0.33",
        level="hint",
    ),
    "values are too good": Rule(
        shows=lambda now: (
            _learning(now) and now["reward/extrinsic"] < 0 and now["value/extrinsic"] > 0
        ),
        evidence=lambda now: (
            f"value/extrinsic is {now['value/extrinsic']:.3g} while "
            f"reward/extrinsic is {now['reward/extrinsic']:.3g}"
        ),
    ),
    "learning is slow though errors are large": Rule(
        shows=lambda now: (
            _learning(now)
            and now.progress > 0.5
            and now["target_difference/extrinsic"] > _mean_error(now)
        ),
        evidence=lambda now: (
            f"target_difference/extrinsic is {now['target_difference/extrinsic']:.3g}, above the "
            f"TD error of {_mean_error(now):.3g}"
        ),
    ),
    "learning from few windows": Rule(
        shows=lambda now: (
            _learning(now) and now["replay/effective_windows"] < 0.1 * now["replay/windows"]
        ),
        evidence=lambda now: (
            f"replay/effective_windows is {now['replay/effective_windows']:,.0f} "
            f"of {now['replay/windows']:,.0f}"
        ),
    ),
    "priorities are out of date": Rule(
        shows=lambda now: _learning(now) and now["priority/drawn"] > 1.5 * now["priority/mean"],
        evidence=lambda now: (
            f"priority/drawn is {now['priority/drawn']:.3g}, "
            f"priority/mean {now['priority/mean']:.3g}"
        ),
        level="hint",
    ),
    "learning from the past": Rule(
        shows=lambda now: _learning(now) and now["replay/age"] > 0.7 * now["replay/transitions"],
        evidence=lambda now: (
            f"replay/age is {now['replay/age'] / now['replay/transitions']:.2f} "
            "of replay/transitions"
        ),
        healthy="0.3 to 0.6",
        level="hint",
    ),
    "actors play with old weights": Rule(
        shows=lambda now: now["actor/weights_age"] > now.run.config.learner.target_period,
        evidence=lambda now: (
            f"actor/weights_age is {now['actor/weights_age']:,.0f} updates, more "
            f"than learner.target_period {now.run.config.learner.target_period:,}"
        ),
    ),
}


def marks(run: RunHistory) -> list[Mark]:
    """Return the symptoms that the latest metrics of a run show, warnings first."""
    if not run.metrics:
        return []
    now = recent(run)
    found = [
        {
            "symptom": symptom,
            "evidence": rule.evidence(now) + (rule.healthy and f" (healthy: {rule.healthy})"),
            "advice": BY_SYMPTOM[symptom].otherwise,
            "anchor": BY_SYMPTOM[symptom].anchor,
            "level": rule.level,
        }
        for symptom, rule in RULES.items()
        if rule.shows(now)
    ]
    return sorted(found, key=lambda mark: mark["level"] != "warning")
