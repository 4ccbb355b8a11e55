"""Measures how the core time of a step grows with replay, episodic memory and lanes.

    python -m agent57.bench.growth --out docs/growth

The agent has the paper's size and one thread. Replay: a step's share of inserting and sampling
windows of Pong. Memory: the novelty of one state. Lanes: acting in the random coin grid, whose
environment costs little. Writes OUT.json, OUT.svg and OUT.png.
"""

import dataclasses
import itertools
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from agent57.bench.acting import make_actor
from agent57.bench.cost import cost_of
from agent57.bench.play import SEQUENCE, Rows, folded, make_assembler, make_replay, record
from agent57.bench.script import options_of, show
from agent57.config import CuriosityConfig, ReplayConfig
from agent57.curiosity.episodic import EpisodicMemory
from agent57.envs.make import make_env
from agent57.presets import make_config
from agent57.replay.block import Block

TRANSITIONS = (100_000, 300_000, 1_000_000, 5_000_000)
MEMORIES = (1_000, 3_000, 10_000, 30_000)
LANES = (1, 4, 16, 64, 256)
BATCH_SIZE = 64  # windows
INSERTED = 2000  # blocks
RECORDED_LANES, RECORDED_STEPS = 8, 640


def recorded_blocks() -> list[Block]:
    """Return blocks of whole episodes of Pong, played at random."""
    rows = Rows(folded(record("pong", 2, 4 * RECORDED_STEPS, seed=0), RECORDED_LANES // 2))
    assembler = make_assembler(ReplayConfig(), rows.num_lanes)
    return [block for played in rows.play(rows.num_steps) for block in assembler.add(played)]


def of_replay(size: int, seconds: float, blocks: list[Block]) -> float:
    """Return core seconds per transition: its share of adding a block and drawing windows."""
    config = ReplayConfig(capacity=size)
    replay = make_replay(config)
    num_episodes = max(block.episode for block in blocks) + 1
    stream = (
        dataclasses.replace(block, episode=block.episode + turn * num_episodes)
        for turn in itertools.count()
        for block in blocks
    )
    while replay.num_transitions < size - SEQUENCE.replay_period:
        replay.add(next(stream))
    more = iter(list(itertools.islice(stream, INSERTED)))
    insert = cost_of(lambda: replay.add(next(more)), calls=INSERTED)
    replay.sample(BATCH_SIZE)
    sample = cost_of(lambda: replay.sample(BATCH_SIZE), seconds, calls=10)
    per_block = insert.cpu + config.samples_per_insert * sample.cpu / BATCH_SIZE
    return per_block / SEQUENCE.replay_period


def of_memory(size: int, seconds: float) -> float:
    """Return core seconds for the novelty of one state, with a full memory."""
    rng = np.random.default_rng(0)
    memory = EpisodicMemory(1, 32, CuriosityConfig(memory_size=size))
    for state in rng.standard_normal((size, 1, 32), np.float32):
        memory.add(state, np.ones(1, bool))
    queries = itertools.cycle(rng.standard_normal((64, 1, 32), np.float32))
    memory.novelty(next(queries))  # the first call compiles
    return cost_of(lambda: memory.novelty(next(queries)), seconds, calls=200).cpu


def of_lanes(size: int, seconds: float) -> float:
    """Return core seconds for a step of one lane, when `size` lanes act together."""
    config = make_config("agent57", "paper", "grid")
    config = dataclasses.replace(
        config,
        actor=dataclasses.replace(config.actor, lanes=size),
        env=dataclasses.replace(config.env, name="random_coin"),
    )
    env = make_env(config.env, size)
    actor = make_actor(config, env)
    cost_of(actor.step, calls=3)
    found = cost_of(actor.step, seconds, calls=10).cpu / size
    env.close()
    return found


def draw(curves: dict[str, tuple[tuple[int, ...], list[float]]], out: Path) -> None:
    """Draw all curves over the size, with logarithmic axes."""
    figure, axes = plt.subplots(figsize=(7, 4.2))
    for name, (sizes, seconds) in curves.items():
        axes.loglog(sizes, [1e3 * value for value in seconds], "o-", label=name)
    axes.set_xlabel("transitions, memories or lanes")
    axes.set_ylabel("core time of a step of one lane, ms")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    for suffix in (".svg", ".png"):
        figure.savefig(out.with_suffix(suffix), dpi=150)


def main() -> None:
    """Measure, print and write."""
    parser = options_of(__doc__)
    parser.add_argument("--out", type=Path, default=Path("growth"))
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement, by clock")
    options = parser.parse_args()
    torch.set_num_threads(1)
    blocks, seconds = recorded_blocks(), options.seconds
    curves = {
        "replay (transitions)": (TRANSITIONS, [of_replay(n, seconds, blocks) for n in TRANSITIONS]),
        "episodic memory (states)": (MEMORIES, [of_memory(n, seconds) for n in MEMORIES]),
        "acting (lanes)": (LANES, [of_lanes(n, seconds) for n in LANES]),
    }
    figures = {
        name: {str(size): value for size, value in zip(*curve, strict=True)}
        for name, curve in curves.items()
    }
    show({"seconds_per_step": figures}, options.out.with_suffix(".json"))
    draw(curves, options.out)


if __name__ == "__main__":
    main()
