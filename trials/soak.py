"""Kills an actor of a cluster every minute, and records memory, samples per insert and returns.

    python trials/soak.py --minutes 30 --out soak

Writes soak/soak.csv (one row per sample) and soak/soak.png. Prints a verdict: memory of all
processes after the warm-up, samples per insert, restarts, returns of the evaluator.
"""

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from agent57.bench.processes import KINDS, by_kind, descendants, newest, resident

SAMPLE_SECONDS = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--kill-every", type=float, default=60.0, help="seconds")
    parser.add_argument("--env", default="toy/cue")
    parser.add_argument("--scale", default="tiny")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--lanes-per-actor", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("soak"))
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    run = args.out / "run"
    command = [
        sys.executable, "-m", "agent57", "train", "--env", args.env, "--scale", args.scale,
        "--runtime", "cluster", "--actors", str(args.actors), "--lanes-per-actor",
        str(args.lanes_per_actor), "--frames", str(10**12), "--run.log-frames", "1000",
        "--run.checkpoint-seconds", "120", "--device", "cpu", "--out", str(run),
    ]  # fmt: skip
    log = (args.out / "log.txt").open("w")
    driver = subprocess.Popen(command, stdout=log, stderr=log)
    rows: list[dict] = []
    kills = 0
    while not newest(run / "metrics.jsonl") and driver.poll() is None:
        time.sleep(1)
    began = last_kill = time.monotonic()
    rng = np.random.default_rng(0)
    while time.monotonic() - began < 60 * args.minutes and driver.poll() is None:
        kinds = descendants(driver.pid)
        memory = by_kind(kinds, resident)
        line = newest(run / "metrics.jsonl")
        rows.append(
            {
                "minutes": (time.monotonic() - began) / 60,
                **{f"{kind} MB": memory[kind] / 1e6 for kind in KINDS},
                "total MB": sum(memory.values()) / 1e6,
                "replay MB": line.get("replay/bytes", 0) / 1e6,
                "frames": line.get("frames"),
                "updates": line.get("updates"),
                "samples per insert": line.get("cluster/samples_per_insert"),
                "restarts": line.get("cluster/actor_restarts"),
                "lost transitions": line.get("cluster/lost_transitions"),
                "return": line.get("evaluator/return"),
            }
        )
        actors = [pid for pid, kind in kinds.items() if kind == "ActorWorker"]
        if actors and time.monotonic() - last_kill >= args.kill_every:
            os.kill(int(rng.choice(actors)), signal.SIGKILL)
            last_kill = time.monotonic()
            kills += 1
        time.sleep(SAMPLE_SECONDS)
    driver.send_signal(signal.SIGTERM)
    code = driver.wait()
    with (args.out / "soak.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    wanted = json.loads((run / "config.json").read_text())["replay"]["samples_per_insert"]
    draw(rows, args.out / "soak.png", wanted)
    say(rows, kills, code, wanted)


def column(rows: list[dict], name: str) -> np.ndarray:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], float)


def say(rows: list[dict], kills: int, code: int, wanted: float) -> None:
    minutes, total = column(rows, "minutes"), column(rows, "total MB")
    replay = column(rows, "replay MB")
    late = minutes >= minutes[-1] / 3
    slope = np.polyfit(minutes[late], (total - replay)[late], 1)[0]
    ratio = column(rows, "samples per insert")[late] / wanted
    returns = column(rows, "return")
    third = len(rows) // 3
    print(f"ended with exit code {code} after {minutes[-1]:.1f} minutes, {kills} actors killed")
    print(f"restarts told by the run: {rows[-1]['restarts']}, lost transitions: "
          f"{rows[-1]['lost transitions']}, frames: {rows[-1]['frames']}, "
          f"updates: {rows[-1]['updates']}")  # fmt: skip
    mean = (total - replay)[late].mean()
    print(f"memory beyond the replay, last two thirds: {mean:.0f} MB, {slope:+.2f} MB/min")
    print(f"samples per insert over the wanted {wanted}: {np.nanmin(ratio):.3f} to "
          f"{np.nanmax(ratio):.3f}")  # fmt: skip
    print(f"evaluator's return, first and last third: {np.nanmean(returns[:third]):.3f}, "
          f"{np.nanmean(returns[-third:]):.3f}")  # fmt: skip


def draw(rows: list[dict], file: Path, wanted: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    minutes = column(rows, "minutes")
    figure, (memory, ratio, returns) = plt.subplots(3, 1, figsize=(8, 8), sharex=True)
    for kind in (*KINDS, "total", "replay"):
        memory.plot(minutes, column(rows, f"{kind} MB"), label=kind)
    memory.set_ylabel("resident MB")
    memory.legend(fontsize="small", ncol=4)
    ratio.plot(minutes, column(rows, "samples per insert"))
    ratio.axhspan(0.95 * wanted, 1.05 * wanted, alpha=0.2)
    ratio.set_ylabel("samples per insert")
    returns.plot(minutes, column(rows, "return"))
    returns.set_ylabel("evaluator's return")
    returns.set_xlabel("minutes")
    figure.savefig(file, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
