"""Measures how fast the live page opens a week's run, and what watching costs a training.

    python -m agent57.bench.watching week         a made-up folder, opened as `agent57 watch` does
    python -m agent57.bench.watching glances      core time of describing lanes, per write
    python -m agent57.bench.watching turns        core time of a training with and without a page

`week` writes 100,000 lines of metrics and a million episodes, then times reading, building the page
and building a zoomed page. Times are core seconds and wall seconds of one thread.

`turns` trains tiny Pong with one seed in three ways, which take turns: without a watcher, with
`agent57 watch` and a client that reads its events, and with a headless browser that shows its page.
It prints the core time of the training process. The training also counts the core time that it
spends for a watcher. Any other difference comes from the effect of other processes on its caches.
All runs must have played the same episodes.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from agent57.bench.script import options_of, tell
from agent57.config import to_dict
from agent57.presets import make_config
from agent57.runtime.parts import build
from agent57.video.lane_files import LaneFiles, LaneWriter
from agent57.watch.followed_runs import FollowedRuns

T = TypeVar("T")
NUM_LINES, NUM_EPISODES = 100_000, 1_000_000
LOG_FRAMES = 10_000
EVALUATED = 20  # one of this many episodes is an evaluation episode


def write_week(path: Path) -> None:
    """Write a run folder as large as that of a week's training."""
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
            episode = {
                "source": "evaluator" if is_scored else "actor",
                "phase": "evaluate" if is_scored else "train",
                "lane": 0, "arm": i % 32, "beta": 0.3, "gamma": 0.997,
                "frames": i * NUM_LINES * LOG_FRAMES // NUM_EPISODES, "length": 1000,
                "return": value, "intrinsic_return": 3.5,
            }  # fmt: skip
            file.write(json.dumps(episode) + "\n")


def timed(name: str, work: Callable[[], T]) -> T:
    """Print the seconds of some work, and return its result."""
    wall, core = time.perf_counter(), time.thread_time()
    result = work()
    core_seconds, seconds = time.thread_time() - core, time.perf_counter() - wall
    tell(f"{name}: {core_seconds:.2f} s of core time, {seconds:.2f} s")
    return result


def week(folder: Path) -> None:
    """Open a made-up run as large as a week's."""
    path = folder / "week"
    if not path.exists():
        write_week(path)
    sizes = [(path / f"{name}.jsonl").stat().st_size / 1e6 for name in ("metrics", "episodes")]
    tell(f"metrics {sizes[0]:.0f} MB, episodes {sizes[1]:.0f} MB")
    runs = timed("finding the run", lambda: FollowedRuns([path]))
    page = timed("reading it and building the page", lambda: runs.page([]))
    tell(f"page {len(page) / 1e6:.2f} MB")
    timed("looking again, nothing new", lambda: runs.page([]))
    total = NUM_LINES * LOG_FRAMES
    timed("a zoom to a hundredth", lambda: runs.page([], (0.5 * total, 0.51 * total)))


def glances(folder: Path) -> None:
    """Measure what describing lanes costs a training."""
    torch.set_num_threads(1)
    config = make_config("agent57", "tiny")
    config = replace(config, env=replace(config.env, name="pong"))
    parts = build(config, torch.device("cpu"))
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
    tell(f"one writing of {num_lanes} lanes: {1000 * cost:.2f} ms, at most two a second")
    tell(f"share of a core: {100 * cost / 0.5:.3f} %")


# Trains as `agent57 train` does, and writes the core seconds of showing lanes and of everything.
COUNTING = """
import json, sys, time
from pathlib import Path
from agent57.cli import run
from agent57.video.lane_files import LaneWriter

show, spent = LaneWriter.show, [0.0]

def counted(writer, gather):
    started = time.thread_time()
    show(writer, gather)
    spent[0] += time.thread_time() - started

LaneWriter.show = counted
code = run(sys.argv[2:])
Path(sys.argv[1]).write_text(json.dumps([spent[0], time.process_time()]))
sys.exit(code)
"""
WATCHERS: dict[str, tuple[str, ...] | None] = {
    "alone": None,
    "events": ("curl", "--silent", "--no-buffer"),
    "browser": (
        "chromium", "--headless", "--no-sandbox", "--disable-gpu",
        "--disable-background-networking", "--remote-debugging-port=0",
    ),
}  # fmt: skip


def turns(folder: Path, rounds: int, frames: int = 6000, port: int = 5857) -> None:
    """Train with and without a watcher in turn, and compare core time."""
    shares: dict[str, list[float]] = {name: [] for name in WATCHERS}
    totals: dict[str, list[float]] = {name: [] for name in WATCHERS}
    for turn in range(rounds):
        names = list(WATCHERS) if turn % 2 == 0 else list(WATCHERS)[::-1]
        for name in names:
            showing, total = train_once(folder / f"turn{turn}-{name}", frames, name, port)
            shares[name].append(showing / total)
            totals[name].append(total)
        tell("  ".join(f"{name} {totals[name][-1]:.2f} s" for name in WATCHERS))
    played = {file.read_bytes() for file in folder.glob("turn*/episodes.jsonl")}
    alone = np.array(totals["alone"])
    for name in WATCHERS:
        more = 100 * (np.array(totals[name]) / alone - 1)
        spread = np.std(more, ddof=1) / np.sqrt(rounds) if rounds > 1 else np.nan
        share = f"{100 * np.mean(shares[name]):.3f} % (at most {100 * np.max(shares[name]):.3f} %)"
        tell(f"{name}: {np.mean(totals[name]):.1f} s of core time, {share} of it for showing "
              f"lanes; against alone {np.mean(more):+.2f} % +- {spread:.2f} % "
              f"(median {np.median(more):+.2f} %)")  # fmt: skip
    tell(f"{rounds} rounds, same episodes: {len(played) == 1}")


def started(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a silent process, which Ctrl-C does not reach."""
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def train_once(out: Path, frames: int, watcher: str, port: int) -> tuple[float, float]:
    """Train once; return core seconds for showing lanes, and for everything else."""
    command = WATCHERS[watcher]
    beside = []
    if command is not None:
        watch = [sys.executable, "-m", "agent57", "watch", str(out), "--wait", "--port", str(port)]
        beside.append(started(watch))
        await_port(port)
        page = f"http://127.0.0.1:{port}/" + ("events" if watcher == "events" else "")
        beside.append(started([*command, page]))
    counts = out.with_suffix(".json")
    options = f"--env pong --scale tiny --seed 0 --frames {frames} --run.threads 1".split()
    train = [sys.executable, "-c", COUNTING, str(counts), "train", *options, "--out", str(out)]
    subprocess.run(train, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    is_shown = command is None or (out / "live" / "actor.json").exists()
    for process in reversed(beside):
        process.terminate()
        process.wait()
    if not is_shown:
        raise RuntimeError(f"nobody looked at {out}: did the {watcher} open the page?")
    showing, total = json.loads(counts.read_text())
    return showing, total


def await_port(port: int) -> None:
    """Wait until the server answers."""
    for _ in range(600):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"no server at port {port}")


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("what", choices=["week", "glances", "turns"])
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one by default")
    parser.add_argument("--rounds", type=int, default=8, help="of turns")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if args.what == "turns":
            turns(folder, args.rounds)
        else:
            {"week": week, "glances": glances}[args.what](folder)


if __name__ == "__main__":
    main()
