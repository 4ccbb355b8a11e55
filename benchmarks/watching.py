"""How fast the live page opens a week's run, and what watching costs a training.

    python benchmarks/watching.py week            a made-up folder, opened as `agent57 watch` does
    python benchmarks/watching.py glances         core time of telling what lanes do, per writing
    python benchmarks/watching.py turns           core time of a training with and without a page

`week` writes 100,000 lines of metrics and a million episodes, then times reading, building the page
and building a zoomed page. Times are core seconds and wall seconds of one thread.

`turns` trains tiny Pong with one seed, in turns with and without `agent57 watch` and a headless
browser that shows the page. It compares the core time of the training process alone, and checks
that both runs played the same episodes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from agent57.config import to_dict
from agent57.presets import make_config
from agent57.runtime import inline
from agent57.video.lane_files import LaneFiles, LaneWriter
from agent57.watch.followed_runs import FollowedRuns

NUM_LINES, NUM_EPISODES = 100_000, 1_000_000
LOG_FRAMES = 10_000
EVALUATED = 20  # every so many episodes one is an evaluation episode


def write_week(path: Path) -> None:
    """A run folder as large as that of a week's training."""
    path.mkdir(parents=True)
    config = make_config("agent57", "paper")
    run = replace(config.run, frames=NUM_LINES * LOG_FRAMES)
    config = replace(config, run=run, env=replace(config.env, name="pong"))
    (path / "config.json").write_text(json.dumps(to_dict(config)))
    rng = np.random.default_rng(0)
    arms = range(config.family.arms)
    trained = ("extrinsic", "intrinsic", "inverse_dynamics", "rnd")
    names = [f"{kind}/{name}" for kind in ("loss", "gradient_norm", "clipped") for name in trained]
    names += [f"{kind}/{j}" for kind in ("arm_plays", "arm_return", "batch_share") for j in arms]
    names += [f"td/{kind}/{j}" for kind in trained[:2] for j in arms]
    names += ["value/extrinsic", "value/intrinsic", "curiosity/novelty", "frames_per_second"]
    with (path / "metrics.jsonl").open("w") as file:
        for i in range(NUM_LINES):
            row = {
                "frames": (i + 1) * LOG_FRAMES,
                "updates": i,
                "evaluator/best_arm": i // 999 % 32,
            }
            row |= dict(zip(names, rng.random(len(names)).round(6).tolist(), strict=True))
            file.write(json.dumps(row) + "\n")
    returns = rng.normal(size=NUM_EPISODES).round(3).tolist()
    with (path / "episodes.jsonl").open("w") as file:
        for i, value in enumerate(returns):
            is_scored = i % EVALUATED == 0
            row = {
                "source": "evaluator" if is_scored else "actor",
                "phase": "evaluate" if is_scored else "train",
                "lane": 0, "arm": i % 32, "beta": 0.3, "gamma": 0.997,
                "frames": i * NUM_LINES * LOG_FRAMES // NUM_EPISODES, "length": 1000,
                "return": value, "intrinsic_return": 3.5,
            }  # fmt: skip
            file.write(json.dumps(row) + "\n")


def timed(name: str, work):
    wall, core = time.perf_counter(), time.thread_time()
    result = work()
    core_seconds, seconds = time.thread_time() - core, time.perf_counter() - wall
    print(f"{name}: {core_seconds:.2f} s of core time, {seconds:.2f} s")
    return result


def week(folder: Path) -> None:
    path = folder / "week"
    if not path.exists():
        write_week(path)
    sizes = [(path / f"{name}.jsonl").stat().st_size / 1e6 for name in ("metrics", "episodes")]
    print(f"metrics {sizes[0]:.0f} MB, episodes {sizes[1]:.0f} MB")
    runs = timed("finding the run", lambda: FollowedRuns([path]))
    page = timed("reading it and building the page", lambda: runs.page([]))
    print(f"page {len(page) / 1e6:.2f} MB")
    timed("looking again, nothing new", lambda: runs.page([]))
    total = NUM_LINES * LOG_FRAMES
    timed("a zoom to a hundredth", lambda: runs.page([], (0.5 * total, 0.51 * total)))


def glances(folder: Path) -> None:
    torch.set_num_threads(1)
    config = make_config("agent57", "tiny")
    config = replace(config, env=replace(config.env, name="pong"))
    parts = inline.build(config, torch.device("cpu"))
    for _ in range(300):
        parts.actor.step()
        parts.evaluator.step(0)
    LaneFiles(folder).ask()
    costs = []
    for _ in range(200):
        writer = LaneWriter(folder)
        started = time.thread_time()
        writer.show(parts.lanes)
        costs.append(time.thread_time() - started)
    cost = float(np.median(costs))
    num_lanes = sum(map(len, parts.lanes().values()))
    print(f"one writing of {num_lanes} lanes: {1000 * cost:.2f} ms, at most two a second")
    print(f"share of a core: {100 * cost / 0.5:.3f} %")


def turns(folder: Path, frames: int = 6000, pairs: int = 4, port: int = 5857) -> None:
    differences, totals = [], []
    for turn in range(pairs):
        seconds = {}
        for is_watched in (turn % 2 == 0, turn % 2 == 1):
            out = folder / f"turn{turn}-{'watched' if is_watched else 'alone'}"
            seconds[is_watched] = train_once(out, frames, port if is_watched else None)
        differences.append(seconds[True] / seconds[False] - 1)
        totals.append(seconds[False])
        print(f"alone {seconds[False]:.2f} s, watched {seconds[True]:.2f} s", flush=True)
    played = {file.read_bytes() for file in folder.glob("turn*/episodes.jsonl")}
    spread = np.std(differences, ddof=1) / np.sqrt(pairs)
    print(f"{pairs} pairs of {np.mean(totals):.1f} s of core time: watched costs "
          f"{100 * np.mean(differences):+.2f} % +- {100 * spread:.2f} %; "
          f"same episodes: {len(played) == 1}")  # fmt: skip


def train_once(out: Path, frames: int, port: int | None) -> float:
    """Core seconds of one training; with a port, a page about it stands open in a browser."""
    program = [sys.executable, "-m", "agent57"]
    options = f"--env pong --scale tiny --seed 0 --frames {frames} --run.threads 1".split()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    beside = []
    if port is not None:
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0")
        watch = [*program, "watch", str(out), "--wait", "--port", str(port)]
        beside.append(subprocess.Popen(watch, **quiet))
        time.sleep(20)
        page = ["chromium", *flags, f"http://127.0.0.1:{port}/"]
        beside.append(subprocess.Popen(page, start_new_session=True, **quiet))
    training = subprocess.Popen([*program, "train", *options, "--out", str(out)], **quiet)
    _, status, usage = os.wait4(training.pid, 0)
    training.returncode = os.waitstatus_to_exitcode(status)
    if training.returncode:
        raise RuntimeError(f"the training in {out} failed")
    is_shown = port is None or (out / "live" / "actor.json").exists()
    for process in reversed(beside):
        process.terminate()
        process.wait()
    if not is_shown:
        raise RuntimeError(f"nobody looked at {out}: did the browser open the page?")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["week", "glances", "turns"])
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one by default")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        {"week": week, "glances": glances, "turns": turns}[args.what](
            args.folder or Path(temporary)
        )


if __name__ == "__main__":
    main()
