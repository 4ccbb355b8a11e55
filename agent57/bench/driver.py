"""Measures the driver of a cluster: core seconds per call, with workers that only answer.

    python -m agent57.bench.driver --actors 16 64 256 1024

The driver, the object store and the replay shard are real. Actors answer at once with recorded
blocks, learners answer at once with priorities, and the weights have the chosen scale. A few
processes answer for all actors, which the driver cannot notice. If a call takes the driver t core
seconds, it can handle at most 1 / t calls per second. The core time of the other processes, before
any call and per answer, is the cost of Ray in addition to the agent's work.
"""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from agent57.bench.processes import core_seconds, descendants, title_of
from agent57.bench.script import options_of, tell
from agent57.config import Config
from agent57.envs.make import check_env
from agent57.learner import Learner
from agent57.nets.networks import make_networks
from agent57.presets import make_config
from agent57.replay.block import Block, make_layout
from agent57.runtime.cluster.ray_address import prepare
from agent57.types import Episode

if TYPE_CHECKING:
    from agent57.runtime.cluster.conductor import Cluster
    from agent57.runtime.cluster.workers import ActorWorker, Arrays, PlayReport

CPU = torch.device("cpu")
PROCESSES = 4  # processes that answer for all actors
WORKERS = ("Answering", "ShardWorker")  # words in the titles of workers' processes
WARM_UP_SECONDS = 3.0


class AnsweringActor:
    """Answers each call to play with the same blocks, each time as a new episode.

    The end of an episode completes a window, so the replay can draw windows.
    """

    def __init__(self, blocks: list[Block], report: "PlayReport") -> None:
        self._blocks, self._report, self._num_calls = blocks, report, 0

    def start(self, *_: object) -> int:
        """Drop no episodes."""
        return 0

    def play(self, weights: object, version: int, *_: object) -> object:
        """Answer with blocks and a report."""
        self._num_calls += 1
        blocks = [
            replace(
                block, episode=self._num_calls, index=i, priority=1.0,
                is_last=i == len(self._blocks) - 1,
            )
            for i, block in enumerate(self._blocks)
        ]  # fmt: skip
        return blocks, replace(self._report, version=version)

    def state_dict(self) -> None:
        """Have no state."""


class AnsweringEvaluator(AnsweringActor):
    """Answers each call to play with a report only."""

    def play(self, weights: object, version: int, *_: object) -> object:
        """Answer with a report."""
        return replace(self._report, version=version, sent=0)


class AnsweringLearner:
    """Answers each update with priorities, and counts updates."""

    def __init__(self, weights: "Arrays") -> None:
        self._weights, self._updates = weights, 0

    def start(self, *_: object) -> None:
        """Prepare nothing."""

    def update(self, *parts: dict[str, np.ndarray]) -> tuple[object, ...]:
        """Answer with one metric and the priorities of all windows."""
        self._updates += 1
        answers = [(part["key"], np.ones(len(part["key"]), np.float32)) for part in parts]
        return {"loss/extrinsic": 1.0}, *answers

    def weights(self) -> tuple["Arrays", int]:
        """Return the weights and their version."""
        return dict(self._weights), self._updates

    def num_updates(self) -> int:
        """Return the number of updates."""
        return self._updates


class Silence:
    """A journal that discards everything."""

    def add(self, scalars: dict[str, float]) -> None:
        """Discard metrics."""

    def add_episode(self, episode: Episode) -> None:
        """Discard an episode."""


def started_actor(config: Config, index: int) -> tuple["ActorWorker", "Arrays"]:
    """Return an actor of a cluster, here in this process, and weights that it can play with."""
    from agent57.runtime.cluster.workers import ActorWorker, arrays_of

    spec = check_env(config.env)
    networks = make_networks(config, spec)
    worker = ActorWorker(config, index, make_layout(spec, networks))
    worker.start(None, None)
    return worker, arrays_of(Learner(config, networks, CPU).weights()[0])


@dataclass(frozen=True)
class Recorded:
    """One call to a real actor, a few calls after its start."""

    blocks: list[Block]
    report: "PlayReport"
    weights: "Arrays"

    @classmethod
    def of(cls, config: Config) -> "Recorded":
        """Play two calls."""
        worker, weights = started_actor(config, 0)
        for _ in range(2):
            blocks, report = worker.play(weights, 0)
        return cls(blocks, report, weights)


def answering_cluster(config: Config, recorded: Recorded, folder: Path) -> "Cluster":
    """Return a cluster whose actors, learners and evaluator only answer."""
    from agent57.runtime.cluster.calls import Calls, Process
    from agent57.runtime.cluster.conductor import Cluster

    class AnsweringCalls(Calls):
        """Starts processes that only answer."""

        def __init__(self) -> None:
            super().__init__()
            self._pool: list[Process] = []

        def spawn(self, kind: type, *args: object, **options: Any) -> Process:  # noqa: ANN401
            """Start the substitute of a process; actors share a few."""
            name = kind.__name__
            if name == "EvaluatorWorker":
                return super().spawn(AnsweringEvaluator, recorded.blocks, recorded.report)
            if name == "LearnerWorker":
                return super().spawn(AnsweringLearner, recorded.weights)
            if name != "ActorWorker":
                return super().spawn(kind, *args, **options)
            if len(self._pool) < PROCESSES:
                self._pool.append(super().spawn(AnsweringActor, recorded.blocks, recorded.report))
            self._pool.append(self._pool.pop(0))
            return self._pool[-1]

        def end(self, process: Process) -> None:
            """End a process, except one that answers for several actors."""
            if process not in self._pool:
                super().end(process)

    spec = check_env(config.env)
    layout = make_layout(spec, make_networks(config, spec))
    journal: Any = Silence()
    return Cluster(config, spec, layout, CPU, AnsweringCalls(), folder, journal, tell)


def make(options: argparse.Namespace, actors: int) -> Config:
    """Return the settings of a run with so many actors; without --learn it never learns."""
    config = make_config("agent57", options.scale)
    return replace(
        config,
        actor=replace(config.actor, lanes=actors * options.lanes_per_actor),
        cluster=replace(config.cluster, actors=actors, actor_cpus=0.001),
        replay=replace(
            config.replay,
            min_windows=100 if options.learn else config.replay.capacity // 80,
        ),
        run=replace(config.run, runtime="cluster", frames=10**12, threads=1),
    )


def core_times() -> dict[str, tuple[float, int]]:
    """Return core seconds and number of Ray's own processes and of the workers."""
    found = {"Ray": (0.0, 0), "workers": (0.0, 0)}
    for pid in descendants(os.getpid()).keys() - {os.getpid()}:
        kind = "workers" if any(word in title_of(pid) for word in WORKERS) else "Ray"
        seconds, count = found[kind]
        found[kind] = (seconds + core_seconds(pid), count + 1)
    return found


def show_idle(seconds: float) -> None:
    """Print the cores that each kind of process takes while nobody calls."""
    before, core, clock = core_times(), time.process_time(), time.monotonic()
    time.sleep(seconds)
    clock = time.monotonic() - clock
    shares = [f"driver {(time.process_time() - core) / clock:.4f} cores"]
    for kind, (spent, count) in core_times().items():
        cores = (spent - before[kind][0]) / clock
        shares.append(f"{count} {kind} {cores:.4f} cores ({cores / max(1, count):.4f} each)")
    tell(f"without a call for {clock:.0f} s: " + ", ".join(shares))


def conduct(parts: "Cluster", seconds: float) -> None:
    """Call every process that may be called, for some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        parts.call_all_who_may()
        parts.calls.take_in()


def show_busy(parts: "Cluster", actors: int, seconds: float) -> None:
    """Print the core time per answer of the driver and of each kind of process."""
    clock, core, others = time.monotonic(), time.process_time(), core_times()
    answers, steps, updates = parts.calls.num_answers, parts.totals.steps, parts.totals.updates
    conduct(parts, seconds)
    clock, core = time.monotonic() - clock, time.process_time() - core
    answers = parts.calls.num_answers - answers
    steps, updates = parts.totals.steps - steps, parts.totals.updates - updates
    tell(f"{actors:5d} actors: {answers / clock:7.0f} answers/s in {clock:.0f} s, driver "
         f"{core / clock:.2f} cores, {core / answers * 1e6:6.0f} us of the driver per "
         f"answer; its limit {answers / core:7.0f} answers/s, {steps / core:9,.0f} "
         f"steps/s; {updates / clock:.2f} updates/s")  # fmt: skip
    for kind, (spent, _) in core_times().items():
        more = spent - others[kind][0]
        tell(f"  {kind}: {more / answers * 1e6:.0f} us per answer, {more / clock:.3f} cores")


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--actors", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--lanes-per-actor", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--idle-seconds", type=float, default=0.0, help="to watch before any call")
    parser.add_argument("--learn", action="store_true", help="with updates and publications")
    options = parser.parse_args()

    config = make(options, options.actors[0])
    address = prepare(config)
    from agent57.runtime.cluster.conductor import joined_ray

    recorded = Recorded.of(config)
    size = sum(len(block.to_bytes()) for block in recorded.blocks)
    megabytes = sum(x.nbytes for x in recorded.weights.values()) / 1e6
    tell(f"{options.scale}: a call brings {len(recorded.blocks)} blocks, {size:,} bytes; "
         f"weights {megabytes:.1f} MB")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, joined_ray(config, address, CPU, tell):
        for actors in options.actors:
            parts = answering_cluster(make(options, actors), recorded, Path(folder))
            parts.start()
            parts.calls.settle(patience=60.0)
            if options.idle_seconds:
                show_idle(options.idle_seconds)
            conduct(parts, WARM_UP_SECONDS)
            show_busy(parts, actors, options.seconds)
            parts.close()


if __name__ == "__main__":
    main()
