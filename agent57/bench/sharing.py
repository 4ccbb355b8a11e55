"""One torso and core for both values, compared with separate networks of the same size."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from agent57.bench.acting import WARM_UP_STEPS, make_actor
from agent57.bench.cost import Result, compare, cost_of
from agent57.bench.effort import Plan, bench_config
from agent57.bench.learning import CPU, random_batch
from agent57.config import Config
from agent57.envs.make import check_env, make_env
from agent57.learner import Learner
from agent57.nets.networks import make_networks

ACTING_AIM, LEARNING_AIM = 1.5, 1.6


def sharing(plan: Plan, scale: str) -> list[Result]:
    """Acting and learning with `network.values` shared; the limit is the speed of separate ones."""
    separate = bench_config(scale, plan.main_lanes)
    shared = replace(separate, network=replace(separate.network, values="shared"))
    return [_acting(plan, scale, shared, separate), _learning(plan, scale, shared, separate)]


def _acting(plan: Plan, scale: str, shared: Config, separate: Config) -> Result:
    lanes = plan.main_lanes
    with ExitStack() as stack:
        actors = []
        for config in (shared, separate):
            env = make_env(config.env, lanes)
            stack.callback(env.close)
            actors.append(make_actor(config, env))
        one, two = (actor.step for actor in actors)
        figures = _compare(plan, one, two, lanes)
    return Result(
        part="acting", scale=scale, setting=f"{lanes} lanes", unit="steps", aim=ACTING_AIM,
        **figures,
    )  # fmt: skip


def _learning(plan: Plan, scale: str, shared: Config, separate: Config) -> Result:
    rows, size = separate.sequence.window_length, separate.learner.batch_size
    one, two = _update(shared), _update(separate)
    return Result(
        part="learning", scale=scale, setting=f"{size} x {rows}", unit="timesteps",
        aim=LEARNING_AIM, **_compare(plan, one, two, rows * size),
    )  # fmt: skip


def _update(config: Config) -> Callable[[], Any]:
    spec = check_env(config.env)
    networks = make_networks(config, spec)
    learner = Learner(config, networks, CPU)
    batch = random_batch(config, spec, networks.num_cores, networks.state_size)
    return lambda: learner.update(batch)


def _compare(
    plan: Plan, shared: Callable[[], Any], separate: Callable[[], Any], amount: int
) -> dict[str, float]:
    for work in (shared, separate):
        cost_of(work, calls=WARM_UP_STEPS)
    return compare(
        lambda: cost_of(shared, plan.seconds),
        lambda: cost_of(separate, plan.seconds),
        plan.repeats,
        amount,
    )
