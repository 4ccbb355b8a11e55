"""Acting beside the emulator and the networks' arithmetic; novelty beside reading the memory."""

import itertools

import numpy as np
import torch

from agent57.bench.cost import Cost, Result, compare, cost_of
from agent57.bench.limits import Emulator, Limits, count_flops
from agent57.bench.plan import Plan, bench_config
from agent57.config import CuriosityConfig
from agent57.curiosity.episodic import EpisodicMemory
from agent57.runtime import inline

AIM = 0.5
NOVELTY_AIM = 0.5
CPU = torch.device("cpu")
WARM_UP_STEPS = 5


def acting(plan: Plan, limits: Limits, scale: str, lanes: int) -> Result:
    """Agent steps per second of a whole actor: networks, emulator, novelty, assembly."""
    config = bench_config(scale, lanes)
    actor = inline.build(config, CPU).actor
    emulator = Emulator(config.env, lanes)
    for _ in range(WARM_UP_STEPS):
        actor.step()
        emulator.step()
    flops = _flops_of_a_step(scale)

    def unavoidable() -> Cost:
        return cost_of(emulator.step, plan.seconds) + limits.flop() * (lanes * flops)

    figures = compare(lambda: cost_of(actor.step, plan.seconds), unavoidable, plan.repeats, lanes)
    emulator.close()
    return Result(
        part="acting",
        scale=scale,
        setting=f"{lanes} lanes",
        unit="steps",
        aim=AIM if lanes == plan.main_lanes else None,
        flops=flops,
        **figures,
    )


def _flops_of_a_step(scale: str) -> int:
    """Arithmetic of one lane's step, which any number of lanes multiplies.

    Counted with a single thread, because the counter does not see what other threads do.
    """
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        actor = inline.build(bench_config(scale, 1), CPU).actor
        actor.step()
        return count_flops(actor.step)
    finally:
        torch.set_num_threads(num_threads)


def novelty(plan: Plan, limits: Limits, memory: int, lanes: int = 16) -> Result:
    """States per second scored against full episodic memories."""
    config = CuriosityConfig(memory=memory)
    rng = np.random.default_rng(0)
    episodic = EpisodicMemory(lanes, 32, config)
    every = np.ones(lanes, bool)
    for _ in range(memory):
        episodic.add(rng.standard_normal((lanes, 32), np.float32), every)
    queries = itertools.cycle(rng.standard_normal((64, lanes, 32), np.float32))

    def score() -> None:
        episodic.novelty(next(queries))

    score()
    num_bytes = lanes * memory * 32 * 4
    figures = compare(
        lambda: cost_of(score, plan.seconds),
        lambda: limits.byte() * num_bytes,
        plan.repeats,
        lanes,
    )
    return Result(
        part="novelty",
        scale="paper",
        setting=f"{lanes} lanes x {memory:,}",
        unit="states",
        aim=NOVELTY_AIM if memory == max(plan.memories) else None,
        **figures,
    )
