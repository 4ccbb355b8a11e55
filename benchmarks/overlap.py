"""What is gained where the emulators play while networks work: two groups of lanes in turn, and the
evaluator meanwhile.

    python benchmarks/overlap.py --scales paper laptop

First where a step of all lanes spends its time: of the thread that works longest, which is what the
step takes if nothing else runs, and of all threads together, which is what it takes at least times
the cores. Then each way to play beside the others, a few steps of each in turn, again and again:
ratios are of the rates of neighbours, so that a machine that does other things harms all alike.
"""

import argparse
import os
import statistics
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from agent57.bench.cost import cost_of
from agent57.bench.effort import bench_config
from agent57.config import Config
from agent57.envs.make import make_env
from agent57.player import Decision, Player
from agent57.runtime.allocator import keep_freed_memory
from agent57.seeds import Role
from agent57.types import Played

ROLES = (Role.ACTOR_EPISODES, Role.ACTOR_ACTIONS)
PHASES = ("value networks, actions", "emulator", "novelty and the rest")


class Group:
    """Lanes that play together; their emulators work in a thread of their own."""

    def __init__(self, config: Config, num_lanes: int, first_lane: int = 0) -> None:
        self.env = make_env(config.env, num_lanes)
        epsilon = np.full(num_lanes, 0.1)
        self.player = Player(config, self.env, epsilon, ROLES, first_lane, torch.device("cpu"))
        self._elsewhere = ThreadPoolExecutor(1)
        self._arms = np.zeros(num_lanes, np.int64)
        self._decision: Decision
        self._coming: Future
        self.player.begin(np.ones(num_lanes, bool), self._arms)

    def start(self) -> None:
        self._decision = self.player.decide()
        self._coming = self._elsewhere.submit(self.env.step, self._decision.action)

    def finish(self) -> None:
        self._go_on(self.player.arrive(self._decision, self._coming.result()))

    def step(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._go_on(self.player.step(meanwhile))

    def phases(self) -> list[tuple[float, float]]:
        """Milliseconds of the longest thread and of all, in each phase of a step."""
        decision, decide = by_thread(self.player.decide)
        step, play = by_thread(lambda: self.env.step(decision.action))
        played, arrive = by_thread(lambda: self.player.arrive(decision, step))
        self._go_on(played)
        return [decide, play, arrive]

    def _go_on(self, played: Played) -> None:
        ended = played.terminated | played.truncated
        if ended.any():
            self.player.begin(ended, self._arms)


def thread_milliseconds() -> dict[str, float]:
    """Time on a core of each thread of this process."""
    found = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        found[path.parent.name] = int(path.read_text().split()[0]) * 1e-6
    return found


def by_thread(work: Callable) -> tuple:
    before = thread_milliseconds()
    result = work()
    spent = [now - before.get(name, 0.0) for name, now in thread_milliseconds().items()]
    return result, (max(spent), sum(spent))


def show_phases(group: Group, num_steps: int) -> None:
    rows = np.mean([group.phases() for _ in range(num_steps)], axis=0)  # [phase, longest or all]
    for name, (longest, total) in zip(PHASES, rows, strict=True):
        print(f"  {name:34s} longest thread {longest:6.2f} ms, all {total:6.2f} ms")
    longest, total = rows.sum(axis=0)
    print(f"  {'together':34s} longest thread {longest:6.2f} ms, all {total:6.2f} ms", flush=True)


def show_ways(ways: dict[str, Callable[[], None]], repeats: int, chunk: int) -> None:
    """Each way beside the first."""
    walls, cores = defaultdict(list), defaultdict(list)
    for _ in range(repeats):
        for name, step in ways.items():
            cost = cost_of(step, calls=chunk)
            walls[name].append(cost.wall * 1e3)
            cores[name].append(cost.cpu * 1e3)
    first = next(iter(ways))
    for name in ways:
        ratios = [a / b for a, b in zip(walls[first], walls[name], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"  {name:34s} {statistics.median(walls[name]):6.2f} ms, "
            f"of all cores {statistics.median(cores[name]):6.2f} ms; "
            f"rate {middle:.2f} of the first ({low:.2f} to {high:.2f})",
            flush=True,
        )


def measure(scale: str, lanes: int, repeats: int, chunk: int) -> None:
    config, half = bench_config(scale, lanes), lanes // 2
    whole, evaluator = Group(config, lanes), Group(config, 1)
    first, second = Group(config, half), Group(config, half, half)
    one, other = Group(config, half), Group(config, half, half)
    for group in (whole, evaluator, first, second, one, other):
        group.step()  # the first one compiles the search of the episodic memory
    one.start()

    def in_turn() -> None:
        other.start()
        one.finish()
        one.start()
        other.finish()

    def apart() -> None:
        first.step()
        second.step()

    def then_evaluator() -> None:
        whole.step()
        evaluator.step()

    print(f"{scale}, {lanes} lanes: a step of all of them")
    show_phases(whole, 2 * chunk)
    ways = {
        "one group": whole.step,
        f"two groups of {half}, in turn": in_turn,
        f"two groups of {half}, no overlap": apart,
    }
    show_ways(ways, repeats, chunk)
    ways = {
        "then a step of the evaluator": then_evaluator,
        "the evaluator meanwhile": lambda: whole.step(evaluator.step),
    }
    show_ways(ways, repeats, chunk)
    one.finish()
    for group in (whole, evaluator, first, second, one, other):
        group.env.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--scales", nargs="+", default=["paper", "laptop"])
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--chunk", type=int, default=8, help="steps of each way in its turn")
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(os.cpu_count() or 1)
    for scale in arguments.scales:
        measure(scale, arguments.lanes, arguments.repeats, arguments.chunk)


if __name__ == "__main__":
    main()
