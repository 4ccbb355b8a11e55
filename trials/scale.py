"""Compares a run of `agent57 train` with its prediction, and checks that it survives kills.

    python trials/scale.py --actors 16 --lanes-per-actor 16 --minutes 20 --kill --out scale-16
    python trials/scale.py --actors 1 --seconds 60 --scale laptop --out scale-1

Runs on this machine until learning has begun, and then measures for a while. Prints core seconds
per agent step, steps per second, memory by kind of process, samples per insert and the rate of
calls, each with the prediction of `agent57 plan`. Core time is compared, because other programs
hardly change it. Wall time follows from the cores that a run gets. With --kill, an actor and the
learner are killed half way, and the measurement begins again once both work again. At the end the
run is stopped, resumed until it plays and learns, and stopped again. Options of `agent57 train`
follow after --.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from agent57.bench.processes import (
    KINDS,
    by_kind,
    core_seconds,
    descendants,
    newest,
    resident,
    shared,
)

WAIT_SECONDS = 2.0


class Run:
    """A process of `agent57`, and the records in its folder."""

    def __init__(self, command: list[str], run: Path, log: Path) -> None:
        self.metrics = run / "metrics.jsonl"
        with log.open("a") as file:
            self.driver = subprocess.Popen(
                [sys.executable, "-m", "agent57", *command], stdout=file, stderr=file
            )
        self.log = log
        self.began = time.monotonic()

    def wait_until(self, is_reached) -> dict:
        while not is_reached(line := newest(self.metrics)):
            if self.driver.poll() is not None:
                sys.exit(f"the run ended with {self.driver.returncode}: see {self.log}")
            time.sleep(WAIT_SECONDS)
        return line

    def next_line(self) -> dict:
        before = newest(self.metrics).get("frames", 0)
        return self.wait_until(lambda found: found.get("frames", 0) > before)

    def sample(self) -> dict:
        """Wait for a new line of metrics; return it with what all processes use at that time."""
        line = self.next_line()
        pids = descendants(self.driver.pid)
        return {
            "line": line,
            "clock": time.monotonic(),
            "core": by_kind(pids, core_seconds),
            "resident": by_kind(pids, resident),
            "shared": by_kind(pids, shared),
            "count": by_kind(pids, lambda pid: 1),
            "pids": pids,
            "files": by_kind(pids, num_files),
            "threads": by_kind(pids, num_threads),
            "store": store_bytes(),
        }

    def stop(self) -> int:
        self.driver.send_signal(signal.SIGTERM)
        return self.driver.wait()

    def kill(self, kind: str) -> None:
        pids = [pid for pid, found in descendants(self.driver.pid).items() if found == kind]
        os.kill(pids[0], signal.SIGKILL)
        print(f"killed {kind} {pids[0]}", flush=True)

    def kill_and_wait(self) -> None:
        """Kill an actor and the learner, and wait until both work again."""
        begun = time.monotonic()
        self.kill("ActorWorker")
        self.kill("LearnerWorker")
        waiting, updates = {"actor", "learner"}, None
        while waiting:
            line = self.next_line()
            has_place = line["cluster/actors_without_place"] == 0
            if has_place and line["cluster/actor_restarts"]:
                self.tell_back(waiting, "actor", begun, line)
            if line["cluster/learner_restarts"]:
                updates = line["updates"] if updates is None else updates
                if line["updates"] > updates:
                    self.tell_back(waiting, "learner", begun, line)

    def tell_back(self, waiting: set, part: str, begun: float, line: dict) -> None:
        if part in waiting:
            waiting.remove(part)
            print(f"the {part} was at work again {time.monotonic() - begun:.0f} s after the kill: "
                  f"{line['frames']:,} frames, {line['updates']} updates, lost "
                  f"{line['cluster/lost_transitions']} transitions, "
                  f"{line['cluster/lost_updates']} updates", flush=True)  # fmt: skip


def store_bytes() -> int:
    """Return the bytes in use in the machine's shared memory, where Ray's object store is."""
    found = os.statvfs("/dev/shm")
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def num_files(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def num_threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def predict(run: Path, costs_file: Path | None, cores: float):
    from agent57.envs.make import check_env
    from agent57.planning.forecast import Machines, forecast, with_task
    from agent57.planning.machine_costs import Costs, machine_costs
    from agent57.planning.sizes import count_sizes
    from agent57.storage.folder import read_config

    config = read_config(run)
    costs = Costs.read(costs_file) if costs_file else machine_costs()
    spec = check_env(config.env)
    found = forecast(config, spec, with_task(costs, config.env), Machines(cores=cores))
    return config, found, count_sizes(config, spec)


def main() -> None:
    from agent57.storage.checkpoint import newest_counters

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="pong")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--lanes-per-actor", type=int, default=16)
    parser.add_argument("--min-windows", type=int, default=64)
    parser.add_argument("--log-frames", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=60.0, help="to measure for")
    parser.add_argument("--minutes", type=float, help="to measure for, instead of seconds")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--costs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args, rest = parser.parse_known_args()
    seconds = 60 * args.minutes if args.minutes else args.seconds
    args.out.mkdir(parents=True)
    folder, log = args.out / "run", args.out / "log.txt"
    spread = ["--actor.lanes", str(args.lanes_per_actor)]
    if args.actors > 1:
        spread = ["--runtime", "cluster", "--actors", str(args.actors)]
        spread += ["--lanes-per-actor", str(args.lanes_per_actor)]
    command = [
        "train", "--env", args.env, "--scale", args.scale, "--frames", str(10**12), "--device",
        "cpu", "--out", str(folder), "--replay.min-windows", str(args.min_windows),
        "--run.log-frames", str(args.log_frames), "--run.checkpoint-seconds", "300", *spread,
        *(arg for arg in rest if arg != "--"),
    ]  # fmt: skip
    run = Run(command, folder, log)
    run.wait_until(lambda line: line.get("frames", 0) > 0)
    print(f"first line of metrics after {time.monotonic() - run.began:.0f} s", flush=True)
    run.wait_until(lambda line: line.get("updates", 0) >= 2)
    print(f"learning after {time.monotonic() - run.began:.0f} s", flush=True)
    first = last = run.sample()
    is_killed = not args.kill
    while time.monotonic() - first["clock"] < seconds:
        last = run.sample()
        if not is_killed and time.monotonic() - first["clock"] > seconds / 2:
            is_killed = True
            report(first, last, folder, args)  # before processes, and their core time, are gone
            run.kill_and_wait()
            first = last = run.sample()
    report(first, last, folder, args)
    if args.kill:
        begun = time.monotonic()
        code = run.stop()
        stopped = time.monotonic() - begun
        saved = newest_counters(folder / "checkpoints")
        run = Run(["resume", str(folder)], folder, log)
        line = run.wait_until(
            lambda line: (
                line.get("frames", 0) > saved["frames"] and line["updates"] > saved["updates"]
            )
        )
        print(f"stopped with {code} in {stopped:.0f} s at {saved['frames']:,} frames and "
              f"{saved['updates']} updates, resumed and at {line['frames']:,} frames and "
              f"{line['updates']} updates after {time.monotonic() - run.began:.0f} s",
              flush=True)  # fmt: skip
    print(f"stopped with {run.stop()}")


def report(first: dict, last: dict, folder: Path, args: argparse.Namespace) -> None:
    elapsed = last["clock"] - first["clock"]
    steps = last["line"]["steps"] - first["line"]["steps"]
    updates = last["line"]["updates"] - first["line"]["updates"]
    core = {kind: last["core"][kind] - first["core"][kind] for kind in KINDS}
    cores = sum(core.values()) / elapsed
    config, found, sizes = predict(folder, args.costs, cores)
    measured = sum(core.values()) / steps
    answers, publications = (
        (last["line"].get(f"cluster/{name}", 0) - first["line"].get(f"cluster/{name}", 0)) / elapsed
        for name in ("answers", "publications")
    )
    print(f"{args.actors} x {args.lanes_per_actor} lanes, {args.scale}, {elapsed:.0f} s: "
          f"{steps:,} steps, {updates} updates, {cores:.2f} cores")  # fmt: skip
    print(f"core seconds per step: predicted {found.core_seconds * 1e3:.3f} ms, measured "
          f"{measured * 1e3:.3f} ms, ratio {found.core_seconds / measured:.2f}")  # fmt: skip
    print(f"steps/s: predicted for {cores:.2f} cores {found.steps_per_second:.1f} "
          f"({found.bottleneck}), measured {steps / elapsed:.1f}, ratio "
          f"{found.steps_per_second / (steps / elapsed):.2f}")  # fmt: skip
    for kind in KINDS:
        if last["count"][kind]:
            print(f"  {last['count'][kind]:3d} {kind:16s} {core[kind] / steps * 1e3:8.3f} ms/step, "
                  f"{last['resident'][kind] / 1e6:8.0f} MB resident, "
                  f"{last['shared'][kind] / 1e6:7.0f} MB of it shared, "
                  f"{last['files'][kind]:5d} files, "
                  f"{last['threads'][kind]:5d} threads")  # fmt: skip
    own = sum(last["resident"].values()) - sum(last["shared"].values())
    print(f"memory: {own / 1e9:.2f} GB unshared, {max(last['shared'].values()) / 1e9:.2f} GB "
          f"shared at most by one kind; predicted with a full replay "
          f"{found.first_bytes / 1e9:.2f} GB, of which replay {found.replay_bytes / 1e9:.2f} GB "
          f"(now {last['line'].get('replay/bytes', 0) / 1e9:.3f})")  # fmt: skip
    line, wanted = last["line"], config.replay.samples_per_insert
    weights = sizes.weight_bytes * publications / 1e6
    print(f"driver {answers:.2f} answers per second, weights {publications:.3f} versions and "
          f"{weights:.2f} MB per second, object store {last['store'] / 1e6:.0f} MB, samples per "
          f"insert {line.get('cluster/samples_per_insert')} of {wanted}, "
          f"lost {line.get('cluster/lost_transitions')} transitions", flush=True)  # fmt: skip
    figures = {"steps": steps, "updates": updates, "seconds": elapsed, "core": core}
    (args.out / "figures.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
