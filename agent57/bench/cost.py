"""Seconds of work: on the clock, and of all cores together. The only place that times anything."""

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one piece of work.

    On a machine that does other things too the clock says little; the time of the cores then is
    the better measure, though blind to cores that stand idle.
    """

    wall: float
    cpu: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def __mul__(self, count: float) -> "Cost":
        return Cost(self.wall * count, self.cpu * count)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cost_of(work: Callable[[], Any], seconds: float = 0.0, calls: int = 1) -> Cost:
    """The cost of one call, over as many calls as fill `seconds`, and at least `calls`."""
    wall, cpu = time.perf_counter(), _cpu_seconds()
    count = 0
    while count < calls or time.perf_counter() - wall < seconds:
        work()
        count += 1
    return Cost((time.perf_counter() - wall) / count, (_cpu_seconds() - cpu) / count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One part of the agent, measured several times beside what it cannot avoid."""

    part: str
    scale: str
    setting: str  # lanes, sizes, threads
    unit: str  # of the rates, per second
    rate: float  # median
    lowest: float
    highest: float
    limit: float  # the rate if only the unavoidable were done; median
    ratio: float  # of the rate to its limit, each pair measured together; median
    cpu_ratio: float  # the same in the time of the cores
    aim: float | None  # of the ratio
    flops: float | None = None  # counted, for each unit; None where arithmetic is not the limit


def compare(
    work: Callable[[], Cost], unavoidable: Callable[[], Cost], repeats: int, amount: float
) -> dict[str, float]:
    """The figures of a `Result` whose work gets `amount` units done; both costs in turn."""
    pairs = [(work(), unavoidable()) for _ in range(repeats)]
    rates = [amount / done.wall for done, _ in pairs]
    return {
        "rate": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "limit": statistics.median(amount / limit.wall for _, limit in pairs),
        "ratio": statistics.median(limit.wall / done.wall for done, limit in pairs),
        "cpu_ratio": statistics.median(limit.cpu / done.cpu for done, limit in pairs),
    }
