"""Measures the driver of a cluster: core seconds per call, with workers that only answer.

    python benchmarks/driver.py --actors 16 64 256 1024

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
from dataclasses import replace
from pathlib import Path

import numpy as np
from processes import core_seconds, descendants, title_of

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
PROCESSES = 4  # processes that answer for all actors
WORKERS = ("Answering", "ShardWorker")  # words in the titles of workers' processes


class AnsweringActor:
    """Answers each call to play with the same blocks, each time as a new episode.

    The end of an episode completes a window, so the replay can draw windows.
    """

    def __init__(self, blocks, report) -> None:
        self._blocks, self._report, self._num_calls = blocks, report, 0

    def start(self, *_):
        return 0

    def play(self, weights, version, *_):
        self._num_calls += 1
        blocks = [
            replace(
                block, episode=self._num_calls, index=i, priority=1.0,
                is_last=i == len(self._blocks) - 1,
            )
            for i, block in enumerate(self._blocks)
        ]  # fmt: skip
        return blocks, replace(self._report, version=version)

    def state_dict(self):
        return None


class AnsweringEvaluator(AnsweringActor):
    """Answers each call to play with a report only."""

    def play(self, weights, version, *_):
        return replace(self._report, version=version, sent=0)


class AnsweringLearner:
    """Answers each update with priorities, and counts updates."""

    def __init__(self, weights) -> None:
        self._weights, self._updates = weights, 0

    def start(self, *_):
        pass

    def update(self, *parts):
        self._updates += 1
        answers = [(part["key"], np.ones(len(part["key"]), np.float32)) for part in parts]
        return {"loss/extrinsic": 1.0}, *answers

    def weights(self):
        return dict(self._weights), self._updates

    def num_updates(self):
        return self._updates


class Silence:
    """A journal that discards everything."""

    def add(self, scalars) -> None:
        pass

    def add_episode(self, episode) -> None:
        pass


def make(args, actors: int):
    from agent57.presets import make_config

    config = make_config("agent57", args.scale)
    return replace(
        config,
        actor=replace(config.actor, lanes=actors * args.lanes_per_actor),
        cluster=replace(config.cluster, actors=actors, actor_cpus=0.001),
        replay=replace(
            config.replay,
            min_windows=100 if args.learn else config.replay.capacity // 80,
        ),
        run=replace(config.run, runtime="cluster", frames=10**12, threads=1),
    )


def recorded(config, networks, spec):
    """Return the blocks and report of a real actor's call, a few calls after its start."""
    import torch

    from agent57.learner import Learner
    from agent57.replay.block import make_layout
    from agent57.runtime.cluster.workers import ActorWorker, arrays_of

    worker = ActorWorker(config, 0, make_layout(spec, networks))
    worker.start(None, None)
    learner = Learner(config, networks, torch.device("cpu"))
    weights = arrays_of(learner.weights()[0])
    for _ in range(2):
        blocks, report = worker.play(weights, 0)
    return blocks, report, weights


def core_times() -> dict[str, tuple[float, int]]:
    """Return core seconds and number of Ray's own processes and of the workers."""
    found = {"Ray": (0.0, 0), "workers": (0.0, 0)}
    for pid in descendants(os.getpid()).keys() - {os.getpid()}:
        kind = "workers" if any(word in title_of(pid) for word in WORKERS) else "Ray"
        seconds, count = found[kind]
        found[kind] = (seconds + core_seconds(pid), count + 1)
    return found


def show_idle(seconds: float) -> None:
    before, core, clock = core_times(), time.process_time(), time.monotonic()
    time.sleep(seconds)
    clock = time.monotonic() - clock
    shares = [f"driver {(time.process_time() - core) / clock:.4f} cores"]
    for kind, (spent, count) in core_times().items():
        cores = (spent - before[kind][0]) / clock
        shares.append(f"{count} {kind} {cores:.4f} cores ({cores / max(1, count):.4f} each)")
    print(f"without a call for {clock:.0f} s: " + ", ".join(shares), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--actors", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--lanes-per-actor", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--idle-seconds", type=float, default=0.0, help="to watch before any call")
    parser.add_argument("--learn", action="store_true", help="with updates and publications")
    args = parser.parse_args()

    import torch

    from agent57.envs.make import check_env
    from agent57.nets.networks import make_networks
    from agent57.replay.block import make_layout
    from agent57.runtime.cluster.ray_address import prepare

    config = make(args, args.actors[0])
    address = prepare(config)
    from agent57.runtime.cluster import conductor
    from agent57.runtime.cluster.calls import Calls

    spec = check_env(config.env)
    networks = make_networks(config, spec)
    blocks, report, weights = recorded(config, networks, spec)
    size = sum(len(block.to_bytes()) for block in blocks)
    print(f"{args.scale}: a call brings {len(blocks)} blocks, {size:,} bytes; weights "
          f"{sum(x.nbytes for x in weights.values()) / 1e6:.1f} MB", flush=True)  # fmt: skip

    class AnsweringCalls(Calls):
        """Starts processes that only answer."""

        def __init__(self) -> None:
            super().__init__()
            self._pool = []

        def spawn(self, kind, *arguments, **options):
            if kind.__name__ == "ActorWorker":
                if len(self._pool) < PROCESSES:
                    self._pool.append(super().spawn(AnsweringActor, blocks, report))
                self._pool.append(self._pool.pop(0))
                return self._pool[-1]
            if kind.__name__ == "EvaluatorWorker":
                return super().spawn(AnsweringEvaluator, blocks, report)
            if kind.__name__ == "LearnerWorker":
                return super().spawn(AnsweringLearner, weights)
            return super().spawn(kind, *arguments, **options)

        def end(self, process):
            if process not in self._pool:
                super().end(process)

    cpu = torch.device("cpu")
    with tempfile.TemporaryDirectory() as folder, conductor.joined_ray(config, address, cpu, print):
        for actors in args.actors:
            config = make(args, actors)
            layout = make_layout(spec, networks)
            calls = AnsweringCalls()
            parts = conductor.Cluster(
                config, spec, layout, cpu, calls, Path(folder), Silence(), print
            )
            parts.start()
            calls.settle(patience=60.0)
            if args.idle_seconds:
                show_idle(args.idle_seconds)

            def conduct(seconds: float, parts=parts) -> None:
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    parts.call_all_who_may()
                    parts.calls.take_in()

            conduct(3.0)
            clock, core, others = time.monotonic(), time.process_time(), core_times()
            answers, steps, updates = calls.num_answers, parts.totals.steps, parts.totals.updates
            conduct(args.seconds)
            clock, core = time.monotonic() - clock, time.process_time() - core
            answers = calls.num_answers - answers
            steps, updates = parts.totals.steps - steps, parts.totals.updates - updates
            print(f"{actors:5d} actors: {answers / clock:7.0f} answers/s in {clock:.0f} s, driver "
                  f"{core / clock:.2f} cores, {core / answers * 1e6:6.0f} us of the driver per "
                  f"answer; its limit {answers / core:7.0f} answers/s, {steps / core:9,.0f} "
                  f"steps/s; {updates / clock:.2f} updates/s", flush=True)  # fmt: skip
            for kind, (spent, _) in core_times().items():
                spent -= others[kind][0]
                print(f"  {kind}: {spent / answers * 1e6:.0f} us per answer, "
                      f"{spent / clock:.3f} cores", flush=True)  # fmt: skip
            parts.close()


if __name__ == "__main__":
    main()
