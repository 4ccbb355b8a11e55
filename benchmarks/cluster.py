"""Measures the cost of a cluster: steps per second of two actors on Ray and of two alone.

    python benchmarks/cluster.py --scale paper --lanes-per-actor 16

Alone: two processes, each with an actor whose blocks are thrown away. Cluster: the same two actors
with driver, replay shard, learner and evaluator, on the same cores. The learner waits, because only
acting is measured. Both take turns in one run, and the ratio is of the medians.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def make(args: argparse.Namespace):
    from dataclasses import replace

    from agent57.presets import make_config

    config = make_config("agent57", args.scale)
    return replace(
        config,
        env=replace(config.env, name=args.env),
        actor=replace(config.actor, lanes=args.actors * args.lanes_per_actor),
        cluster=replace(config.cluster, actors=args.actors),
        replay=replace(
            config.replay, min_windows=config.replay.capacity // config.sequence.replay_period
        ),
        run=replace(config.run, runtime="cluster", frames=10**12, threads=1),
    )


def play_alone(config, index: int, seconds: float, ready, go, answers) -> None:
    from agent57.envs.make import check_env
    from agent57.nets.networks import make_networks
    from agent57.replay.block import make_layout
    from agent57.runtime.cluster.workers import ActorWorker, arrays_of

    spec = check_env(config.env)
    networks = make_networks(config, spec)
    worker = ActorWorker(config, index, make_layout(spec, networks))
    worker.start(None, None)
    weights = arrays_of(networks.state_dict())
    worker.play(weights, 0)
    while True:
        ready.wait()
        go.wait()
        began, steps = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            steps += worker.play(weights, 0)[1].steps
        answers.put(steps / (time.monotonic() - began))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="pong")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--lanes-per-actor", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    config = make(args)

    context = multiprocessing.get_context("spawn")
    ready, go = context.Barrier(args.actors + 1), context.Barrier(args.actors + 1)
    rates = context.Queue()
    alone = [
        context.Process(
            target=play_alone, args=(config, k, args.seconds, ready, go, rates), daemon=True
        )
        for k in range(args.actors)
    ]
    for process in alone:
        process.start()

    from agent57.runtime.cluster.ray_address import prepare

    address = prepare(config)
    import torch

    from agent57.runtime.cluster import conductor

    class Notes:
        def add(self, scalars):
            pass

        def add_episode(self, episode):
            pass

    cpu = torch.device("cpu")
    with tempfile.TemporaryDirectory() as folder, conductor.joined_ray(config, address, cpu, print):
        build = conductor.build(config, cpu, Path(folder), Notes(), print)
        with build as parts:
            parts.start()

            def play_for(seconds: float) -> float:
                """Return the cluster's steps per second; it is idle before and after."""
                began, steps = time.monotonic(), parts.totals.steps
                while time.monotonic() - began < seconds:
                    parts.call_all_who_may()
                    parts.calls.take_in()
                parts.calls.settle()
                return (parts.totals.steps - steps) / (time.monotonic() - began)

            parts.calls.settle(patience=600.0)
            play_for(args.seconds)
            found: dict[str, list[float]] = {"alone": [], "cluster": []}
            for turn in range(args.turns):
                ready.wait()
                go.wait()
                found["alone"].append(sum(rates.get() for _ in alone))
                found["cluster"].append(play_for(args.seconds))
                print(f"turn {turn}: alone {found['alone'][-1]:,.0f}, "
                      f"cluster {found['cluster'][-1]:,.0f} steps/s")  # fmt: skip
    for process in alone:
        process.terminate()
    medians = {name: statistics.median(values) for name, values in found.items()}
    ratio = medians["cluster"] / medians["alone"]
    print(f"{args.scale} scale, {args.actors} x {args.lanes_per_actor} lanes of {args.env}:")
    print(f"alone {medians['alone']:,.0f}, cluster {medians['cluster']:,.0f} steps/s, "
          f"ratio {ratio:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
