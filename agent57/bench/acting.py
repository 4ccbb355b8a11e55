"""Acting compared with emulator and arithmetic alone; novelty compared with reading memory."""

import itertools

import numpy as np
import torch

from agent57.actor import Actor
from agent57.bench.cost import Cost, Result, compare, cost_of
from agent57.bench.effort import Plan, bench_config
from agent57.bench.limits import Emulator, Limits, count_flops
from agent57.config import Config, CuriosityConfig, EnvConfig
from agent57.curiosity.episodic import EpisodicMemory
from agent57.envs.make import make_env
from agent57.envs.spec import VectorEnv
from agent57.learner import Learner
from agent57.nets.networks import make_networks
from agent57.replay.block import make_layout

AIM = 0.5
NOVELTY_AIM = 0.5
CPU = torch.device("cpu")
WARM_UP_STEPS = 5


class Emulators:
    """Emulators alone, made once: a lane takes a quarter of a second of a core to start.

    More lanes than the main ones cost in proportion, since those already keep all cores busy.
    """

    def __init__(self, main_lanes: int) -> None:
        self._main_lanes = main_lanes
        self._made: dict[int, Emulator] = {}

    def step(self, config: EnvConfig, lanes: int, seconds: float) -> Cost:
        """The cost of one action in every lane."""
        num_made = min(lanes, self._main_lanes)
        if num_made not in self._made:
            self._made[num_made] = Emulator(config, num_made)
            cost_of(self._made[num_made].step, calls=WARM_UP_STEPS)
        return cost_of(self._made[num_made].step, seconds) * (lanes / num_made)

    def close(self) -> None:
        """Release the lanes."""
        for emulator in self._made.values():
            emulator.close()


def acting(
    plan: Plan, limits: Limits, emulators: Emulators, scale: str, lanes: int, flops: float
) -> Result:
    """Agent steps per second of a whole actor: networks, emulator, novelty, assembly.

    `flops` counts the operations of one lane's step.
    """
    config = bench_config(scale, lanes)
    env = make_env(config.env, lanes)
    actor = make_actor(config, env)
    cost_of(actor.step, calls=WARM_UP_STEPS)

    def unavoidable() -> Cost:
        alone = emulators.step(config.env, lanes, plan.seconds)
        return alone + limits.flop() * (lanes * flops)

    figures = compare(lambda: cost_of(actor.step, plan.seconds), unavoidable, plan.repeats, lanes)
    env.close()
    return Result(
        part="acting",
        scale=scale,
        setting=f"{lanes} lanes",
        unit="steps",
        aim=AIM if lanes == plan.main_lanes else None,
        flops=flops,
        **figures,
    )


def make_actor(config: Config, env: VectorEnv) -> Actor:
    """An actor whose learner never learns."""
    networks = make_networks(config, env.spec)
    layout = make_layout(env.spec, networks)
    return Actor(config, env, layout, Learner(config, networks, CPU).weights, CPU)


def flops_of_a_step(scale: str) -> int:
    """Arithmetic of one lane's step, which any number of lanes multiplies."""
    config = bench_config(scale, 1)
    env = make_env(config.env, 1)
    try:
        actor = make_actor(config, env)
        actor.step()
        return count_flops(actor.step)
    finally:
        env.close()


def novelty(plan: Plan, limits: Limits, memory: int, lanes: int = 16) -> Result:
    """States per second scored against full episodic memories."""
    config = CuriosityConfig(memory_size=memory)
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
