"""Measures checkpoints with a replay of real play: their time, size and cost to training.

    python -m agent57.bench.checkpointing --transitions 10_000 1_000_000 --json checkpoint.json

A laptop-scale agent on Pong has a replay of random play under the paper's preprocessing. The same
blocks fill the replay again and again under new ids. `first` is the checkpoint of everything,
`next` a checkpoint after another interval of play. `blocked` is how long training stands still.
`cpu` is the core time of the whole checkpoint, including the background. Shares are of the default
interval.
"""

import dataclasses
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from agent57.bench.cost import cpu_seconds
from agent57.bench.script import options_of, show
from agent57.config import Config, to_dict
from agent57.presets import make_config
from agent57.replay.block import Block
from agent57.runtime.parts import Parts, build
from agent57.storage.checkpoint import CheckpointStore
from agent57.storage.journal import resident_bytes

BLOCKS_PER_EPISODE = 20  # length of a game of Pong with random actions
STEPS_PER_SECOND = 60  # rate of a laptop run on two cores; sets the new play per checkpoint


def make(transitions: int, threads: int) -> Config:
    """Return the settings of a laptop-scale agent on Pong with a replay of this size."""
    config = make_config("agent57", "laptop")
    return dataclasses.replace(
        config,
        env=dataclasses.replace(config.env, name="pong"),
        replay=dataclasses.replace(config.replay, capacity=transitions),
        run=dataclasses.replace(config.run, threads=threads),
    )


def played(parts: Parts, num_steps: int) -> list[Block]:
    """Return blocks of real play, by untrained networks."""
    return [block for _ in range(num_steps) for block in parts.actor.step()[0]]


def repeated(blocks: list[Block], period: int) -> Iterator[Block]:
    """Yield the same blocks in endless episodes, with bytes copied as in new blocks."""
    full = [
        (block, block.state)
        for block in blocks
        if block.length == period and block.state is not None and not block.is_last
    ]
    for number, (block, state) in enumerate(itertools.cycle(full)):
        episode, index = divmod(number, BLOCKS_PER_EPISODE)
        is_last = index == BLOCKS_PER_EPISODE - 1
        yield dataclasses.replace(
            block,
            lane=0,
            episode=episode,
            index=index,
            is_last=is_last,
            observations=bytes(bytearray(block.observations)),
            steps=block.steps.copy(),
            state=None if is_last else state.copy(),
            priority=1.0 + number % 7,
        )


def fill(parts: Parts, blocks: Iterator[Block], transitions: int) -> None:
    """Add blocks until they hold so many transitions."""
    added = 0
    while added < transitions:
        block = next(blocks)
        parts.replay.add(block)
        added += block.length


def measure_save(
    config: Config, parts: Parts, store: CheckpointStore, folder: Path
) -> dict[str, float]:
    """Return the seconds, megabytes and shares of one checkpoint."""
    before, memory = {p.name for p in folder.glob("*")}, resident_bytes() or 0
    os.sync()
    begun, cpu = time.perf_counter(), cpu_seconds()
    state = {
        "config": to_dict(config),
        "counters": parts.counters(),
        "parts": parts.state_dict(),
        "journal": {},
    }
    store.save(state, parts.replay.blocks())
    blocked, blocked_cpu = time.perf_counter() - begun, cpu_seconds() - cpu
    peak = memory
    while store.is_writing:
        peak = max(peak, resident_bytes() or 0)
        time.sleep(0.01)
    error = store.wait()
    assert error is None, error
    written = [p for p in folder.glob("*") if p.name not in before]
    seconds = config.run.checkpoint_seconds
    return {
        "blocked_seconds": blocked,
        "blocked_cpu_seconds": blocked_cpu,
        "total_seconds": time.perf_counter() - begun,
        "cpu_seconds": cpu_seconds() - cpu,
        "written_megabytes": sum(p.stat().st_size for p in written) / 1e6,
        "state_megabytes": sum(p.stat().st_size for p in written if p.suffix == ".state") / 1e6,
        "extra_memory_megabytes": (peak - memory) / 1e6,
        "blocked_share": blocked / seconds,
        "cpu_share": (cpu_seconds() - cpu) / seconds,
    }


def measure(transitions: int, threads: int, where: Path) -> dict[str, Any]:
    """Return the figures of two checkpoints and of loading, with so many transitions."""
    config = make(transitions, threads)
    torch.set_num_threads(threads)
    parts = build(config, torch.device("cpu"))
    parts.evaluator.step(0)
    period = config.sequence.replay_period
    blocks = repeated(played(parts, 6 * period), period)
    fill(parts, blocks, transitions)
    figures: dict[str, Any] = {
        "blocks": len(parts.replay.live_ids),
        "replay_bytes": parts.replay.num_bytes,
    }
    with tempfile.TemporaryDirectory(dir=where) as name:
        folder = Path(name) / "checkpoints"
        store = CheckpointStore(folder, config.run.checkpoints_kept)
        figures["first"] = measure_save(config, parts, store, folder)
        fill(parts, blocks, int(STEPS_PER_SECOND * config.run.checkpoint_seconds))
        figures["next"] = measure_save(config, parts, store, folder)
        figures["folder_megabytes"] = sum(p.stat().st_size for p in folder.glob("*")) / 1e6
        begun, cpu = time.perf_counter(), cpu_seconds()
        checkpoint = CheckpointStore(folder, config.run.checkpoints_kept).load()
        assert checkpoint is not None
        parts.load_state_dict(checkpoint.state["parts"], checkpoint.blocks, 0)
        figures["load_seconds"] = time.perf_counter() - begun
        figures["load_cpu_seconds"] = cpu_seconds() - cpu
    return figures


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--transitions", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--where", type=Path, default=Path("/tmp"), help="a folder on the disk")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = {
        f"{transitions:,}": measure(transitions, arguments.threads, arguments.where)
        for transitions in arguments.transitions
    }
    show(figures, arguments.json)


if __name__ == "__main__":
    main()
