"""Costs of calls between processes on Ray, beside the work that the calls ask for.

A Ray is started for this, with a few processes that only answer. Calls come as seldom as in a run
on a few cores. A process that is woken up for each call costs more than one that is kept busy.
"""

import importlib.util
import itertools
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from agent57.bench.effort import bench_config
from agent57.bench.processes import core_seconds, descendants
from agent57.config import ConfigError
from agent57.planning.machine_costs import REFERENCE
from agent57.runtime.cluster.ray_address import prepare

CALLS_PER_SECOND = 25.0
NUM_PROCESSES = 4
WEIGHT_BYTES, BLOCK_BYTES = 5_000_000, 30_000  # of the weights and blocks at laptop scale


class AnsweringWorker:
    """Answers each call with an array of the size of a call's blocks, and a few numbers."""

    def __init__(self) -> None:
        self._blocks = np.zeros(BLOCK_BYTES, np.uint8)

    def start(self) -> int:
        """Return the number of the process."""
        return os.getpid()

    def weights(self) -> np.ndarray:
        """Return weights, with which the others are called."""
        return np.zeros(WEIGHT_BYTES // 4, np.float32)

    def play(self, weights: np.ndarray) -> tuple[np.ndarray, dict[str, float]]:
        """Return the blocks and a report."""
        return self._blocks, {f"scalar/{index}": float(weights[index]) for index in range(30)}


def measure_calls(seconds: float) -> tuple[float, float, float]:
    """Core seconds of a call beyond `Costs.message`, cores of an idle Ray and of an idle process.

    The reference machine's costs stand in if `seconds` is 0, if Ray is not installed or already
    runs here, or if the system does not show the time of other processes.
    """
    known = REFERENCE.answer, REFERENCE.ray_cores, REFERENCE.process_cores
    if not seconds or importlib.util.find_spec("ray") is None or not Path("/proc/self").exists():
        return known
    config = bench_config("tiny", 1)
    try:
        address = prepare(config)
        return known if address else _measured(seconds)
    except ConfigError:
        return known


def _measured(seconds: float) -> tuple[float, float, float]:
    from agent57.runtime.cluster.calls import LEAST_STORE_BYTES, Calls, connected

    config = bench_config("tiny", 1)
    config = replace(config, cluster=replace(config.cluster, actors=1))
    with connected(config, "", LEAST_STORE_BYTES):
        calls = Calls()
        workers = [calls.spawn(AnsweringWorker) for _ in range(NUM_PROCESSES)]
        pids = set(calls.answers([worker.start.remote() for worker in workers]))
        weights = workers[0].weights.remote()
        turns = itertools.cycle(workers)

        def call() -> None:
            _, report = next(turns).play.options(num_returns=2).remote(weights)
            calls.expect(report, calls.answer, "a process")
            calls.settle()

        for _ in workers:
            call()  # each maps the weights once
        idle = _spent(pids, seconds, lambda: None)
        num_before = calls.num_answers
        busy = _spent(pids, seconds, call)
        rate = (calls.num_answers - num_before) / seconds
    answer = (sum(busy) - sum(idle)) / rate
    return max(0.0, answer - REFERENCE.message), idle[0], idle[1] / NUM_PROCESSES


def _spent(
    workers: set[int], seconds: float, work: Callable[[], None]
) -> tuple[float, float, float]:
    """Cores that Ray, the workers and this process take while the work is done now and then."""
    own, begun, before = os.getpid(), time.perf_counter(), _core_seconds()
    while time.perf_counter() - begun < seconds:
        work()
        time.sleep(1 / CALLS_PER_SECOND)
    clock, after = time.perf_counter() - begun, _core_seconds()
    spent = {pid: (after[pid] - before.get(pid, 0.0)) / clock for pid in after}
    in_workers = sum(cores for pid, cores in spent.items() if pid in workers)
    return sum(spent.values()) - in_workers - spent[own], in_workers, spent[own]


def _core_seconds() -> dict[int, float]:
    """Core seconds so far of this process and of all processes below it."""
    return {pid: core_seconds(pid) for pid in descendants(os.getpid())}
