"""One update compared with its arithmetic at the rate of a large matrix product."""

from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from agent57.bench.cost import Result, compare, cost_of
from agent57.bench.effort import Plan, bench_config
from agent57.bench.limits import Limits, count_flops
from agent57.config import Config
from agent57.envs.make import check_env
from agent57.learner import Learner
from agent57.nets.networks import make_networks
from agent57.types import Batch, EnvSpec

EAGER_AIM, COMPILED_AIM, BFLOAT16_AIM = 0.35, 0.55, 1.1
CPU = torch.device("cpu")


def random_batch(config: Config, spec: EnvSpec, num_cores: int, state_size: int) -> Batch:
    """A batch of full windows that nobody played."""
    rng = np.random.default_rng(0)
    rows, size = config.sequence.window_length, config.learner.batch_size

    def integers(high: int, *shape: int, dtype: type = np.int64) -> torch.Tensor:
        return torch.from_numpy(rng.integers(high, size=shape, dtype=dtype))

    def normal(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal(shape, np.float32))

    return Batch(
        observation=integers(256, rows + 1, size, *spec.observation_shape, dtype=np.uint8),
        previous_action=integers(spec.num_actions, rows + 1, size),
        previous_extrinsic=normal(rows + 1, size),
        previous_intrinsic=normal(rows + 1, size).abs(),
        action=integers(spec.num_actions, rows, size),
        action_prob=torch.full((rows, size), 0.5),
        extrinsic=normal(rows, size),
        intrinsic=normal(rows, size).abs(),
        discount=torch.ones(rows, size),
        mask=torch.ones(rows, size, dtype=torch.bool),
        arm=integers(config.family.arms, size),
        start=torch.zeros(size, dtype=torch.int64),
        state=torch.zeros(num_cores, 2, size, state_size),
        key=torch.arange(size),
        probability=torch.full((size,), 1 / size, dtype=torch.float64),
    )


def learning(
    plan: Plan,
    limits: Limits,
    scale: str,
    *,
    is_compiled: bool = False,
    precision: Literal["float32", "bfloat16"] = "float32",
    flops: float | None = None,
) -> Result:
    """Timesteps per second through `Learner.update`.

    `flops` counts the operations of a timestep. It must be given for a compiled update, whose
    operations cannot be counted. The limit is the arithmetic in float32 for every precision.
    """
    config = bench_config(scale, plan.main_lanes)
    learner_config = replace(config.learner, precision=precision)
    if is_compiled:
        learner_config = replace(learner_config, compile="on")
    config = replace(config, learner=learner_config)
    spec = check_env(config.env)
    networks = make_networks(config, spec)
    learner = Learner(config, networks, CPU)
    batch = random_batch(config, spec, networks.num_cores, networks.state_size)
    rows, size = config.sequence.window_length, config.learner.batch_size

    def update() -> None:
        learner.update(batch)

    if flops is None:
        flops = count_flops(update) / (rows * size)
    else:
        update()  # the first one compiles and allocates
    figures = compare(
        lambda: cost_of(update, plan.seconds),
        lambda: limits.flop() * (rows * size * flops),
        plan.repeats,
        rows * size,
    )
    aim = COMPILED_AIM if is_compiled else EAGER_AIM
    kind = "compiled" if is_compiled else "eager"
    is_short = precision == "bfloat16"
    return Result(
        part="learning",
        scale=scale,
        setting=f"{kind}{', bfloat16' if is_short else ''}, {size} x {rows}",
        unit="timesteps",
        aim=BFLOAT16_AIM if is_short else aim,
        flops=flops,
        **figures,
    )
