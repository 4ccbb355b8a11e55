"""Counts the files and lines that a transition passes from actor to learner.

    python -m tests.house.transition_path

Runs a tiny agent on Pong in one process under Python's profiler. Lists every file of the package
with a function that ran between an actor's step and the learner's update, except settings and
records. Prints two counts: all lines of these files, and the lines of the functions that ran.
"""

import sys
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType

import torch

import agent57
from agent57.config import Config
from agent57.presets import make_config
from agent57.replay.buffer import SamplesPerInsert
from agent57.runtime.parts import Parts, build

ROOT = Path(agent57.__file__).parent
STEPS = 60
# The loop itself, which this script replaces, and the bandit, which chooses an arm per episode.
BESIDE = ("runtime/inline.py", "bandit.py")
ASIDE = ("config.py", "types.py")  # settings and records


def step(config: Config, parts: Parts, ratio: SamplesPerInsert) -> None:
    """Play one step and make the updates it owes, as `runtime.inline.train` does."""
    for block in parts.actor.step()[0]:
        parts.replay.add(block)
    num_inserted = parts.replay.num_windows_inserted if parts.replay.num_windows else 0
    batch_size = config.learner.batch_size
    num_owed = ratio.updates_owed(num_inserted, parts.learner.num_updates, batch_size)
    for batch in parts.replay.batches(num_owed, batch_size):
        update = parts.learner.update(batch)
        parts.replay.reprioritise(batch.key, update.priorities)


def num_lines(code: CodeType) -> int:
    """Return the number of lines of a function from its first to its last statement."""
    lines = [line for _, _, line in code.co_lines() if line]
    return max(lines) - code.co_firstlineno + 1


def main() -> None:
    """Profile some steps and print the files."""
    torch.set_num_threads(1)
    config = make_config("agent57", "tiny")
    config = replace(
        config,
        env=replace(config.env, name="pong"),
        replay=replace(config.replay, min_windows=20),
    )
    ran: dict[str, set[CodeType]] = defaultdict(set)

    def note(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(ROOT):
            ran[str(file.relative_to(ROOT))].add(frame.f_code)

    threading.setprofile(note)  # before any thread of the replay starts
    parts, ratio = build(config, torch.device("cpu")), SamplesPerInsert(config.replay)
    for _ in range(STEPS):
        step(config, parts, ratio)
    ran.clear()
    sys.setprofile(note)
    for _ in range(STEPS):
        step(config, parts, ratio)
    sys.setprofile(None)
    totals = [0, 0]
    names = sorted({*ran, *BESIDE} - {*ASIDE})
    for name in names:
        whole = len((ROOT / name).read_text().splitlines())
        # Functions inside functions are counted with the outer one.
        outer = [code for code in ran[name] if "<locals>" not in code.co_qualname]
        used = sum(num_lines(code) for code in outer)
        totals = [totals[0] + whole, totals[1] + used]
        print(f"{whole:5d} {used:5d}  {name}")
    print(f"{totals[0]:5d} {totals[1]:5d}  {len(names)} files")


if __name__ == "__main__":
    main()
