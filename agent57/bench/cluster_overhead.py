"""Measures the cost of a cluster: steps per second of two actors on Ray and of two alone.

    python -m agent57.bench.cluster_overhead --scale paper --lanes-per-actor 16

Alone: two processes, each with an actor whose blocks are thrown away. Cluster: the same two actors
with driver, replay shard, learner and evaluator, on the same cores. The learner waits, because only
acting is measured. Both take turns in one run, and the ratio is of the medians.
"""

import argparse
import multiprocessing
import statistics
import tempfile
import time
from dataclasses import replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent57.bench.driver import CPU, Silence, started_actor
from agent57.bench.script import options_of, tell
from agent57.config import Config
from agent57.presets import make_config
from agent57.runtime.cluster.ray_address import prepare

if TYPE_CHECKING:
    from agent57.runtime.cluster.conductor import Cluster


def make(options: argparse.Namespace) -> Config:
    """Return the settings of a run on a cluster that does not learn."""
    config = make_config("agent57", options.scale)
    return replace(
        config,
        env=replace(config.env, name=options.env),
        actor=replace(config.actor, lanes=options.actors * options.lanes_per_actor),
        cluster=replace(config.cluster, actors=options.actors),
        replay=replace(
            config.replay, min_windows=config.replay.capacity // config.sequence.replay_period
        ),
        run=replace(config.run, runtime="cluster", frames=10**12, threads=1),
    )


def play_alone(
    config: Config, index: int, seconds: float, go: Barrier, rates: "Queue[float]"
) -> None:
    """Play for some seconds at each sign to go, and report steps per second."""
    worker, weights = started_actor(config, index)
    worker.play(weights, 0)
    while True:
        go.wait()
        began, steps = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            steps += worker.play(weights, 0)[1].steps
        rates.put(steps / (time.monotonic() - began))


def play_in_cluster(parts: "Cluster", seconds: float) -> float:
    """Return the cluster's steps per second; it is idle before and after."""
    began, steps = time.monotonic(), parts.totals.steps
    while time.monotonic() - began < seconds:
        parts.call_all_who_may()
        parts.calls.take_in()
    parts.calls.settle()
    return (parts.totals.steps - steps) / (time.monotonic() - began)


def take_turns(
    config: Config, address: str, options: argparse.Namespace, go: Barrier, rates: "Queue[float]"
) -> dict[str, list[float]]:
    """Return the steps per second of each turn, alone and in a cluster."""
    from agent57.runtime.cluster import conductor

    found: dict[str, list[float]] = {"alone": [], "cluster": []}
    journal: Any = Silence()
    with (
        tempfile.TemporaryDirectory() as folder,
        conductor.joined_ray(config, address, CPU, tell),
        conductor.build(config, CPU, Path(folder), journal, tell) as parts,
    ):
        parts.start()
        parts.calls.settle(patience=600.0)
        play_in_cluster(parts, options.seconds)
        for turn in range(options.turns):
            go.wait()
            found["alone"].append(sum(rates.get() for _ in range(options.actors)))
            found["cluster"].append(play_in_cluster(parts, options.seconds))
            tell(f"turn {turn}: alone {found['alone'][-1]:,.0f}, "
                 f"cluster {found['cluster'][-1]:,.0f} steps/s")  # fmt: skip
    return found


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--env", default="pong")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--lanes-per-actor", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()

    config = make(options)
    context = multiprocessing.get_context("spawn")
    go: Barrier = context.Barrier(options.actors + 1)
    rates: Queue[float] = context.Queue()
    alone = [
        context.Process(
            target=play_alone, args=(config, k, options.seconds, go, rates), daemon=True
        )
        for k in range(options.actors)
    ]
    for process in alone:
        process.start()
    found = take_turns(config, prepare(config), options, go, rates)
    for process in alone:
        process.terminate()
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratio = medians["cluster"] / medians["alone"]
    tell(f"{options.scale} scale, {options.actors} x {options.lanes_per_actor} lanes of "
         f"{options.env}:")  # fmt: skip
    tell(f"alone {medians['alone']:,.0f}, cluster {medians['cluster']:,.0f} steps/s, "
         f"ratio {ratio:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
