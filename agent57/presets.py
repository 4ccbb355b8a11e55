"""Every system the paper compares, as a difference from another, and the machine to run it on.

An algorithm (`PRESETS`) and a scale (`SCALES`) are chosen separately. Where the paper does not say
which trace or discount an ablation had, docs/FIDELITY.md argues the choice.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agent57.config import Config, ControllerConfig, FamilyConfig, SequenceConfig, require

AGENT57 = Config()
SMALL_TRACE = SequenceConfig(trace_length=80, replay_period=40)
NGU_FAMILY = FamilyConfig(discounts="ngu", max_gamma=0.997)
UNIFORM = ControllerConfig(kind="uniform")
EXPLOIT = ControllerConfig(kind="exploit", window=3600, epsilon=0.01)

NGU = replace(
    AGENT57,
    family=NGU_FAMILY,
    controller=UNIFORM,
    evaluator_controller=EXPLOIT,
    network=replace(AGENT57.network, values="joint"),
    sequence=SMALL_TRACE,
)
R2D2_RETRACE = replace(
    NGU,
    family=FamilyConfig(arms=1, max_beta=0.0, max_gamma=0.997),
)

PRESETS: dict[str, Config] = {
    "agent57": AGENT57,
    "agent57-small-trace": replace(AGENT57, sequence=SMALL_TRACE),
    "agent57-h-mixture": replace(AGENT57, learner=replace(AGENT57.learner, mixture="h")),
    "ngu": NGU,
    "ngu-sep-nets": replace(NGU, network=AGENT57.network, sequence=AGENT57.sequence),
    "ngu-bandit": replace(AGENT57, network=NGU.network),
    "r2d2": replace(
        R2D2_RETRACE,
        sequence=SequenceConfig(trace_length=80, replay_period=40, burn_in=40),
        replay=replace(NGU.replay, capacity=4_000_000, importance_exponent=0.6),
        learner=replace(NGU.learner, loss="n_step", adam_epsilon=1e-3, target_period=2500),
        actor=replace(NGU.actor, pull_period=400, epsilon_alpha=7.0),
    ),
    "r2d2-retrace": R2D2_RETRACE,
    "r2d2-retrace-long-trace": replace(R2D2_RETRACE, sequence=AGENT57.sequence),
    "r2d2-retrace-high-gamma": replace(
        R2D2_RETRACE, family=replace(R2D2_RETRACE.family, max_gamma=0.9999)
    ),
    "r2d2-bandit": replace(
        R2D2_RETRACE,
        family=replace(AGENT57.family, max_beta=0.0),
        controller=AGENT57.controller,
        evaluator_controller=AGENT57.evaluator_controller,
        sequence=AGENT57.sequence,
    ),
}


def _paper(config: Config) -> Config:
    """The paper's own numbers: 256 lanes, a replay of five million transitions."""
    return config


def _laptop(config: Config) -> Config:
    """Two cores and 8 GB: smaller networks, fewer lanes and arms, more learning per step.

    A lane plays about a hundred episodes, so bandits remember fewer, and the evaluator has lanes
    enough to report on. How these numbers were found: docs/results/TUNING.md.
    """
    return replace(
        config,
        family=_fewer_arms(config.family, 8),
        controller=replace(config.controller, window=40),
        evaluator_controller=replace(config.evaluator_controller, window=50),
        network=replace(
            config.network, channels=(16, 16, 16), feature_size=128, state_size=128, head_size=128
        ),
        sequence=_shorter(config.sequence, 8),
        replay=replace(config.replay, capacity=100_000, min_windows=500, samples_per_insert=4.0),
        learner=replace(
            config.learner,
            batch_size=8,
            learning_rate=5 * config.learner.learning_rate,
            adam_epsilon=config.learner.adam_epsilon / 100,
            # Copied sooner, the target's errors would be those of the online network.
            target_period=config.learner.target_period // 5,
            td_scale="priority",  # or arms without novelty are hardly ever drawn
        ),
        actor=replace(config.actor, lanes=16, epsilon_alpha=4.0),
        evaluator=replace(config.evaluator, lanes=4),
        cluster=replace(config.cluster, actors=2),
        curiosity=replace(config.curiosity, warmup_steps=500),
    )


def _tiny(config: Config) -> Config:
    """Seconds on one core: for tests and for a first look."""
    return replace(
        config,
        family=_fewer_arms(config.family, 4),
        network=replace(
            config.network,
            channels=(8, 16, 16),
            grid_channels=(8, 16),
            feature_size=64,
            state_size=64,
            head_size=64,
            embedding_size=16,
            inverse_head_size=32,
            rnd_size=32,
        ),
        sequence=_shorter(config.sequence, 8),
        replay=replace(config.replay, capacity=50_000, min_windows=50, samples_per_insert=4.0),
        learner=replace(
            config.learner, batch_size=16, learning_rate=1e-3, target_period=100, compile="off"
        ),
        actor=replace(config.actor, lanes=8, pull_period=20),
        cluster=replace(config.cluster, actors=2),
        curiosity=replace(config.curiosity, memory_size=2000, warmup_steps=100),
        run=replace(config.run, log_frames=2000),
    )


SCALES: dict[str, Callable[[Config], Config]] = {
    "paper": _paper,
    "laptop": _laptop,
    "tiny": _tiny,
}
DEFAULT_FRAMES = {"paper": 78_000_000_000, "laptop": 10_000_000, "tiny": 100_000}


def _fewer_arms(family: FamilyConfig, arms: int) -> FamilyConfig:
    return replace(family, arms=min(family.arms, arms))


def _shorter(sequence: SequenceConfig, factor: int) -> SequenceConfig:
    return SequenceConfig(
        trace_length=sequence.trace_length // factor,
        replay_period=sequence.replay_period // factor,
        burn_in=sequence.burn_in // factor,
    )


def make_config(agent: str, scale: str) -> Config:
    """The configuration of a system at a scale."""
    require(agent in PRESETS, f"--agent {agent!r} is not one of {', '.join(PRESETS)}")
    require(scale in SCALES, f"--scale {scale!r} is not one of {', '.join(SCALES)}")
    config = SCALES[scale](PRESETS[agent])
    run = replace(config.run, agent=agent, scale=scale, frames=DEFAULT_FRAMES[scale])
    return replace(config, run=run)


def flatten(config: object, prefix: str = "") -> dict[str, Any]:
    """Every field of a configuration by its dotted name."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, field.name)
        name = prefix + field.name
        values |= flatten(value, f"{name}.") if dataclasses.is_dataclass(value) else {name: value}
    return values


def difference(config: Config, other: Config) -> dict[str, tuple[Any, Any]]:
    """Fields in which two configurations differ, by their dotted names."""
    ours, theirs = flatten(config), flatten(other)
    return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
