"""Acting and learning together, as in `agent57 train`, compared with the sum of the parts."""

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import torch

from agent57.bench.cost import Cost, Result, cost_of
from agent57.bench.effort import Plan, bench_config
from agent57.config import Config
from agent57.replay.buffer import SamplesPerInsert
from agent57.runtime import inline
from agent57.runtime.parts import Parts, build
from agent57.runtime.session import Session
from agent57.storage.folder import RunFolder
from agent57.storage.journal import Journal

AIM = 0.85
NEVER = 1e9  # seconds


def end_to_end(plan: Plan, scale: str) -> Result:
    """Agent steps per second of the inline runtime, its evaluator and journal included."""
    config = bench_config(scale, plan.main_lanes)
    parts = build(config, torch.device("cpu"))
    lanes, period = config.actor.lanes, config.sequence.replay_period
    periods = _periods(config, plan.whole_updates)
    steps, half = periods * period, -(-periods // 2) * period
    with _journal(config) as journal:
        while parts.learner.num_updates < 1:
            _train(config, parts, journal, period)
        before = _alone(config, parts, half)
        num_updates = parts.learner.num_updates
        whole = cost_of(lambda: _train(config, parts, journal, steps))
        num_updates = parts.learner.num_updates - num_updates
        after = _alone(config, parts, half)
    played, learned = ((a + b) * 0.5 for a, b in zip(before, after, strict=True))
    alone = played * steps + learned * num_updates
    rate = steps * lanes / whole.wall
    mixture = (
        num_updates * config.learner.batch_size * config.sequence.trace_length / (steps * lanes)
    )
    return Result(
        part="end to end",
        scale=scale,
        setting=f"{mixture:.1f} learned a step",
        unit="steps",
        rate=rate,
        lowest=rate,
        highest=rate,
        limit=steps * lanes / alone.wall,
        ratio=alone.wall / whole.wall,
        cpu_ratio=alone.cpu / whole.cpu,
        aim=AIM,
    )


def _periods(config: Config, num_updates: int) -> int:
    """Replay periods that earn a whole number of updates, and at least so many.

    Lanes that began together complete their windows together, one of each in every period.
    """
    earned = (
        Fraction(config.replay.samples_per_insert) * config.actor.lanes / config.learner.batch_size
    )
    return earned.denominator * math.ceil(num_updates / (earned.denominator * earned))


@contextmanager
def _journal(config: Config) -> Iterator[Journal]:
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder.create(Path(path) / "run", config)
        journal = Journal(folder, config.run.log_frames)
        try:
            yield journal
        finally:
            journal.close()
            folder.close()


def _train(config: Config, parts: Parts, journal: Journal, steps: int) -> None:
    """Play so many steps in every lane in the inline runtime, with the updates they earn."""
    frames = parts.actor.num_frames + steps * config.actor.lanes * config.env.frame_skip
    session = Session(lambda _: None, lambda: True, NEVER, is_new=False)
    inline.train(replace(config, run=replace(config.run, frames=frames)), parts, journal, session)


def _alone(config: Config, parts: Parts, steps: int) -> tuple[Cost, Cost]:
    """Return the costs of a step of actor and evaluator, and of an update these steps earned."""

    def act() -> None:
        for block in parts.actor.step()[0]:
            parts.replay.add(block)

    def learn() -> None:
        batch = parts.replay.sample(config.learner.batch_size)
        parts.replay.reprioritise(batch.key, parts.learner.update(batch).priorities)

    def learn_all() -> None:
        inserted, batch = parts.replay.num_windows_inserted, config.learner.batch_size
        for _ in range(ratio.updates_owed(inserted, parts.learner.num_updates, batch)):
            learn()

    ratio = SamplesPerInsert(config.replay)
    played = cost_of(act, calls=steps)
    played += cost_of(lambda: parts.evaluator.step(0), calls=steps)
    num_updates = parts.learner.num_updates
    learned = cost_of(learn_all)
    return played, learned * (1 / max(1, parts.learner.num_updates - num_updates))
