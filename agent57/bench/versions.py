"""Compares the training speed of two versions of this package, each with its own defaults.

    git worktree add ../before 43c8ee5
    python -m agent57.bench.versions ../before --env pong --turns 3

The versions take turns. Each turn trains with the command line of its version, with evaluator and
records, and counts from the first line of metrics with updates to the last one.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agent57.bench.script import options_of, tell

HERE = Path(__file__).resolve().parents[2]


def pace(checkout: Path, env: str, frames: int, more: Sequence[str] = ()) -> float:
    """Return the agent steps per second of a short training run with the code in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "agent57", "train", "--env", env, "--out", str(run)]
        ended = subprocess.run(
            [*command, "--frames", str(frames), *more],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            check=False,
            stdout=subprocess.DEVNULL,
        )
        if ended.returncode:
            sys.exit(f"training with the code in {checkout} failed: see the line above")
        lines = (run / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["updates"]]
    if len(rows) < 2:
        sys.exit(f"{frames} frames give no two lines of metrics with updates: raise --frames")
    steps, seconds = (rows[-1][name] - rows[0][name] for name in ("steps", "seconds"))
    return float(steps / seconds)


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("before", type=Path, help="checkout of the other version")
    parser.add_argument("--env", default="pong")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--frames", type=int, default=80_000, help="of a turn")
    args, more = parser.parse_known_args()
    if not (args.before / "agent57").is_dir():
        sys.exit(f"{args.before} is no checkout of agent57: it has no folder agent57")
    if args.turns < 1:
        sys.exit(f"--turns must be at least 1, got {args.turns}")
    ratios = []
    for turn in range(args.turns):
        before, now = (
            pace(checkout, args.env, args.frames, more)
            for checkout in (args.before.resolve(), HERE)
        )
        ratios.append(now / before)
        tell(f"turn {turn + 1}: before {before:.0f}, now {now:.0f} steps/s, {ratios[-1]:.2f} times")
    tell(f"{args.env}: {statistics.median(ratios):.2f} times as fast (median of {args.turns})")


if __name__ == "__main__":
    main()
