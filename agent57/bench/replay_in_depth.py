"""Measures the replay in depth.

Parts of a transition's bytes, rates with more play than in `agent57 bench`, a replay that is really
full, and index operations by the number of windows.

    python -m agent57.bench.replay_in_depth --json replay.json
    python -m agent57.bench.replay_in_depth --fill 5_000_000   # fill it, report resident memory

Play is a uniformly random policy under the paper's preprocessing. Recurrent states have the paper's
size and random values, so they do not compress and are counted in full.
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agent57.bench.effort import FULL
from agent57.bench.play import LAYOUT, Recording, Rows, joined, make_assembler, make_replay, record
from agent57.bench.play import insert as play_into
from agent57.bench.replaying import BATCH, sampling, storing
from agent57.bench.script import options_of, show
from agent57.config import ReplayConfig, SequenceConfig
from agent57.replay.assembler import Assembler
from agent57.replay.buffer import Replay
from agent57.storage.journal import resident_bytes
from agent57.types import Played


def insert(rows: Rows, replay: Replay, assembler: Assembler, num_steps: int) -> float:
    """Add recorded play to the replay; return the seconds it took."""
    begun = time.perf_counter()
    play_into(rows.play(num_steps), replay, assembler)
    return time.perf_counter() - begun


def measure_bytes(recordings: dict[str, Recording]) -> dict[str, Any]:
    """Return memory per transition of each game at each level, with parts at the last level."""
    figures: dict[str, Any] = {}
    for level in (1, 3):
        for game, recording in recordings.items():
            config = ReplayConfig(compression=level)
            replay, rows = make_replay(config), Rows(recording)
            insert(rows, replay, make_assembler(config, rows.num_lanes), rows.num_steps)
            blocks = [block for _, block in replay.blocks()]
            parts = {
                "total": replay.num_bytes,
                "frames": sum(len(block.observations) for block in blocks),
                "steps": sum(block.steps.nbytes for block in blocks),
                "states": sum(b.state.nbytes for b in blocks if b.state is not None),
            }
            figures.setdefault(game, {})[f"level_{level}"] = {
                name: round(size / replay.num_transitions, 1) for name, size in parts.items()
            }
    means = {
        f"level_{level}": float(np.mean([f[f"level_{level}"]["total"] for f in figures.values()]))
        for level in (1, 3)
    }
    return {"games": figures, "mean": means}


def measure_scaling(sizes: tuple[int, ...], repeats: int = 200) -> dict[str, Any]:
    """Return microseconds of drawing and reprioritising 64 windows and inserting, by size."""
    sequence = SequenceConfig(trace_length=2, replay_period=1)
    layout = dataclasses.replace(
        LAYOUT, observation_shape=(1,), num_actions=2, num_values=1, num_cores=1, state=1
    )
    config = ReplayConfig(capacity=sizes[-1], min_windows=1)
    replay = Replay(config, sequence, layout, np.random.default_rng(0))
    assembler = Assembler(
        sequence, layout, 1, lambda windows, _: torch.ones(len(windows.arm)), first_lane=0,
        compression=1, threads=1,
    )  # fmt: skip
    one, column = np.zeros(1, np.int64), np.zeros(1, np.float32)
    played = Played(
        observation=np.zeros((1, 1), np.uint8), previous_action=one, previous_extrinsic=column,
        previous_intrinsic=column, action=one, action_prob=column, extrinsic=column,
        intrinsic=column, terminated=np.ones(1, bool), truncated=np.zeros(1, bool),
        next_observation=np.zeros((1, 1), np.uint8), arm=one,
        state=np.zeros((1, 2, 1, 1), np.float32), value=np.zeros((1, 1, 2), np.float32),
        final_value=np.zeros((1, 1, 2), np.float32),
    )  # fmt: skip
    (block,) = assembler.add(played)
    figures = {}
    for size in sizes:
        begun, before = time.perf_counter(), replay.num_windows
        while replay.num_windows < size:
            replay.add(block)
        per_insert = (time.perf_counter() - begun) / (size - before)
        seconds = {"sample": 0.0, "reprioritise": 0.0}
        for _ in range(repeats):
            begun = time.perf_counter()
            batch = replay.sample(BATCH)
            seconds["sample"] += time.perf_counter() - begun
            priorities = torch.rand(BATCH)
            begun = time.perf_counter()
            replay.reprioritise(batch.key, priorities)
            seconds["reprioritise"] += time.perf_counter() - begun
        figures[str(size)] = {name: round(s / repeats * 1e6) for name, s in seconds.items()}
        figures[str(size)]["insert"] = round(per_insert * 1e6)
    return figures


def measure_fill(rows: Rows, num_transitions: int) -> dict[str, Any]:
    """Fill a replay with play, and add a tenth more, so that eviction is measured too."""
    config = ReplayConfig(capacity=num_transitions)
    assembler = make_assembler(config, rows.num_lanes)
    replay = make_replay(config)
    insert(rows, replay, assembler, rows.num_steps)  # fills the assembler's memory
    before = (resident_bytes() or 0) - replay.num_bytes
    steps = int(1.1 * num_transitions) // rows.num_lanes
    seconds = insert(rows, replay, assembler, steps)
    resident = (resident_bytes() or 0) - before
    return {
        "transitions": replay.num_transitions,
        "windows": replay.num_windows,
        "num_bytes": replay.num_bytes,
        "resident_bytes": resident,
        "bytes_per_transition": replay.num_bytes / replay.num_transitions,
        "steps_per_second": steps * rows.num_lanes / seconds,
        "sample": dataclasses.asdict(sampling(replay, config, 3)),
    }


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--lanes", type=int, default=32, help="of each game")
    parser.add_argument("--steps", type=int, default=480, help="of each lane")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--windows", type=int, default=1_000_000, help="largest index measured")
    parser.add_argument("--fill", type=int, default=0, help="transitions to really fill")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    recordings = {
        game: record(game, arguments.lanes, arguments.steps, seed)
        for seed, game in enumerate(FULL.games)
    }
    config = ReplayConfig(threads=arguments.threads)
    figures: dict[str, Any] = {"bytes_per_transition": measure_bytes(recordings)}
    plan = dataclasses.replace(FULL, repeats=arguments.repeats)
    for result in storing(plan, recordings, config):
        figures[result.part] = dataclasses.asdict(result)
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size <= arguments.windows]
    figures["microseconds_by_windows"] = measure_scaling(tuple(sizes))
    if arguments.fill:
        figures["fill"] = measure_fill(Rows(joined(list(recordings.values()))), arguments.fill)
    show(figures, arguments.json)


if __name__ == "__main__":
    main()
