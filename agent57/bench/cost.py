"""Seconds of work, on the clock and summed over cores. All timing of the package lives here."""

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one piece of work.

    On a busy machine the clock says little. CPU time is the better measure there, but it does not
    see idle cores.
    """

    wall: float
    cpu: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def __mul__(self, count: float) -> "Cost":
        return Cost(self.wall * count, self.cpu * count)


def cpu_seconds() -> float:
    """Time that this process has spent on all cores."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def cost_of(work: Callable[[], Any], seconds: float = 0.0, calls: int = 1) -> Cost:
    """Mean cost of one call, over at least `calls` calls and at least `seconds`."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    count = 0
    while count < calls or time.perf_counter() - wall < seconds:
        work()
        count += 1
    return Cost((time.perf_counter() - wall) / count, (cpu_seconds() - cpu) / count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One part of the agent, measured several times against its limit on this machine."""

    part: str
    scale: str
    setting: str  # lanes, sizes, threads
    unit: str  # of the rates, per second
    rate: float  # median
    lowest: float
    highest: float
    limit: float  # the rate if only the unavoidable work were done; median
    ratio: float  # rate over limit, both measured one after the other; median
    cpu_ratio: float  # the same ratio in CPU time
    aim: float | None  # for the ratio
    flops: float | None = None  # counted per unit; None where arithmetic is not the limit


def compare(
    work: Callable[[], Cost], unavoidable: Callable[[], Cost], repeats: int, amount: float
) -> dict[str, float]:
    """Figures of a `Result` whose work does `amount` units; both costs are measured in turn."""
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
