"""Every system the paper compares, and the default settings of each at every scale.

An algorithm (`PRESETS`) and a scale (`SCALES`) are chosen separately. What a scale changes may
depend on the kind of observation, never on the name of a task. Where the paper does not say which
trace or discount an ablation had, docs/FIDELITY.md argues the choice.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from agent57.config import Config, ControllerConfig, FamilyConfig, Kind, SequenceConfig, require

Change = Callable[[Config], Config]
# Fields that options with names of their own set.
OWN_OPTIONS = (
    "env.name", "run.agent", "run.scale", "run.kind", "run.seed", "run.frames", "run.device",
    "run.runtime",
)  # fmt: skip

AGENT57 = Config()
SMALL_TRACE = SequenceConfig(trace_length=80, replay_period=40)
# With r^i in units of its own mean, these suit dense and sparse rewards.
WIDE_BETAS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3)
# With r^i as it is, these suit games, where it is 3 a step, and small grids.
FAINT_BETAS = (0.0, 0.0001, 0.0003, 0.0006, 0.001, 0.002, 0.003, 0.01)
NEAR_BETAS = (0.0, 0.01, 0.014, 0.018, 0.018, 0.022, 0.026, 0.03)
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

# The successor (Kapturowski et al., 2022). docs/FIDELITY.md says which values are known.
MEME = replace(
    AGENT57,
    family=FamilyConfig(arms=16, discounts="ngu", max_gamma=0.9997, min_gamma=0.97),
    network=replace(AGENT57.network, values="shared", arm_input="head", torso="residual"),
    learner=replace(
        AGENT57.learner,
        loss="soft_watkins",
        value_loss="combined",
        trust_region=2.0,
        cross_mixture=0.5,
        td_scale="both",
        td_scale_batch=True,
        target_period=400,
        learning_rate=3e-4,
        novelty_learning_rate=6e-4,
        weight_decay=0.05,
        policy="distilled",
    ),
    replay=replace(
        AGENT57.replay,
        capacity=16_000_000,  # 200,000 windows that start 80 steps apart
        priority_exponent=0.6,
        importance_exponent=0.4,
        samples_per_insert=6.0,
    ),
    actor=replace(AGENT57.actor, lanes=64),
    curiosity=replace(AGENT57.curiosity, memory_size=5000),
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
    "meme": MEME,
}


def _paper(config: Config) -> Config:
    """The paper's own numbers: 256 lanes and a replay of five million transitions."""
    return config


def _laptop(config: Config) -> Config:
    """Two cores and 8 GB: smaller networks, fewer lanes and arms, more learning per step.

    A lane plays about a hundred episodes, so bandits remember fewer episodes. The evaluator gets
    more lanes, because one lane would report too rarely. Evaluations play an average of the
    networks, because the latest greedy policy is unsteady. MEME has the small torso: its residual
    torso takes thirteen times the operations of an update from images. docs/results/TUNING.md has
    the trials behind these numbers.
    """
    learner = config.learner
    return replace(
        config,
        family=_fewer_arms(config.family, 8),
        controller=replace(config.controller, window=40),
        evaluator_controller=replace(config.evaluator_controller, window=100),
        network=replace(
            config.network,
            torso="dqn",
            feature_size=128,
            state_size=128,
            head_size=128,
            average_rate=0.003,
        ),
        sequence=_shorter(config.sequence, 4),
        replay=replace(config.replay, capacity=200_000, min_windows=200, samples_per_insert=4.0),
        learner=replace(
            config.learner,
            batch_size=16,
            learning_rate=5e-4,
            adam_epsilon=config.learner.adam_epsilon / 100,
            # Copied sooner, the target would repeat the errors of the online network.
            target_period=config.learner.target_period // 5,
            # Otherwise arms without novelty are hardly ever drawn.
            td_scale="priority" if learner.td_scale == "none" else learner.td_scale,
        ),
        actor=replace(config.actor, lanes=16, epsilon_alpha=4.0),
        evaluator=replace(config.evaluator, lanes=4),
        cluster=replace(config.cluster, actors=2),
        # NGU's kernel epsilon for small grids keeps the episodic novelty near 1 to 3 on average.
        curiosity=replace(
            config.curiosity, warmup_steps=500, memory_size=5000, kernel_epsilon=0.01
        ),
    )


def _laptop_pixels(config: Config) -> Config:
    """Images at laptop scale: long episodes, many frames and a slow network.

    MEME acts on its values here: its distilled policy learned nothing in 700,000 frames of Pong.
    """
    return replace(
        config,
        family=_family(config.family, FAINT_BETAS, (0.99, 0.985, 0.97)),
        evaluator_controller=replace(config.evaluator_controller, window=50),
        network=replace(
            config.network,
            channels=(16, 16, 16),
            reward_input="squash",
            initial_weights="scaled",  # outputs begin near 0: the best of many is not too good
        ),
        sequence=_shorter(config.sequence, 2),
        replay=replace(config.replay, capacity=100_000, min_windows=500, samples_per_insert=8.0),
        learner=replace(config.learner, batch_size=8, policy="values"),
        curiosity=replace(config.curiosity, memory_size=30_000),
    )


def _desktop(config: Config) -> Config:
    """Long runs on a few cores: more lanes, a larger replay and less learning per step."""
    config = _laptop(config)
    return replace(
        config,
        replay=replace(config.replay, capacity=1_000_000, samples_per_insert=2.0),
        actor=replace(config.actor, lanes=64),
    )


def _desktop_pixels(config: Config) -> Config:
    """Images in long runs: novelty counts in sparse games, large or small.

    The intrinsic reward is measured in units of its own mean, as it is for vectors at laptop scale.
    Longer windows cost less per step that is learned.
    """
    small = _laptop_pixels(config)
    return replace(
        small,
        family=_family(_log_linear(config.family), WIDE_BETAS, (0.997, 0.99, 0.97)),
        sequence=config.sequence,
        replay=replace(config.replay, min_windows=1000),
        network=small.network,
        learner=replace(
            config.learner,
            policy=small.learner.policy,
            td_scale="both",
            cross_mixture=0.5 if config.family.arms > 1 else 1.0,
        ),
        curiosity=replace(small.curiosity, error_horizon=1000, reward_horizon=5000),
    )


def _laptop_grid(config: Config) -> Config:
    """Small grids of symbols at laptop scale: one reward, which ends the episode.

    With beta_j / (1 - gamma_j) between 0.3 and 0.6 an arm looks around and still comes to an end.
    Below that range it does not look around; above 0.9 it hardly ever ends an episode.
    """
    return replace(
        config,
        # With longer discounts, a wasted step costs less than the noise of the values.
        family=_family(config.family, NEAR_BETAS, (0.98, 0.97, 0.95)),
        network=replace(
            config.network,
            grid_channels=(8, 16, 32),
            initial_weights="scaled",
            view_gain=20.0,  # otherwise r^i drowns out a cell's symbol
            forget_bias=3.0,
            head_slope=0.01,  # otherwise the heads of Q^e die before the first reward
        ),
        # With small epsilons, lanes walk in loops until the time limit and learn nothing there.
        actor=replace(config.actor, lanes=32, epsilon_alpha=1.0),
        # Forgets RND's first errors; otherwise the modulation stays at 1.
        curiosity=replace(config.curiosity, error_horizon=1000),
    )


def _laptop_vector(config: Config) -> Config:
    """Short vectors at laptop scale: a small normalised network that learns often.

    The intrinsic reward is measured in units of its own mean, so that betas from 0.001 to 0.3 suit
    dense and sparse rewards. Every arm learns from the windows of the others. The learner computes
    in bfloat16 where that is faster. Single runs on images and grids learned less in bfloat16.
    """
    return replace(
        config,
        family=_family(_log_linear(config.family), WIDE_BETAS, (0.995, 0.99, 0.97)),
        evaluator_controller=replace(config.evaluator_controller, window=50),
        network=replace(
            config.network,
            feature_size=64,
            state_size=64,
            head_size=64,
            normalise="layer",
            vector_input="standard",
            reward_input="squash",
            skip=True,
        ),
        sequence=_shorter(config.sequence, 2),
        replay=replace(config.replay, samples_per_insert=16.0),
        learner=replace(
            config.learner,
            batch_size=32,
            target_period=config.learner.target_period // 6,
            td_scale="both",
            cross_mixture=0.5 if config.family.arms > 1 else 1.0,
            precision="auto",
        ),
        curiosity=replace(config.curiosity, error_horizon=1000, reward_horizon=5000),
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
        replay=replace(config.replay, capacity=50_000, min_windows=50, samples_per_insert=4.0),
        learner=replace(
            config.learner, batch_size=16, learning_rate=1e-3, target_period=100, compile="off"
        ),
        actor=replace(config.actor, lanes=8, pull_period=20),
        cluster=replace(config.cluster, actors=2),
        curiosity=replace(config.curiosity, memory_size=2000, warmup_steps=100),
        sequence=_shorter(config.sequence, 8),
        run=replace(config.run, log_frames=2000),
    )


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A machine: its changes for all tasks, and for each kind of observation."""

    change: Change
    frames: Mapping[Kind, int]  # of a run, unless a user asks for others
    kinds: Mapping[Kind, Change] = field(default_factory=dict)


KINDS: tuple[Kind, ...] = get_args(Kind)
PAPER_FRAMES = 78_000_000_000
SCALES = {
    "paper": Scale(change=_paper, frames=dict.fromkeys(KINDS, PAPER_FRAMES)),
    "laptop": Scale(
        change=_laptop,
        # As long as Pong, key corridor and the vector tasks of the desk suite take to be learned.
        frames={"pixels": 3_000_000, "grid": 4_000_000, "vector": 300_000},
        kinds={"pixels": _laptop_pixels, "grid": _laptop_grid, "vector": _laptop_vector},
    ),
    "desktop": Scale(
        change=_desktop,
        frames={"pixels": 40_000_000, "grid": 20_000_000, "vector": 2_000_000},
        kinds={"pixels": _desktop_pixels, "grid": _laptop_grid, "vector": _laptop_vector},
    ),
    "tiny": Scale(change=_tiny, frames=dict.fromkeys(KINDS, 100_000)),
}


def _fewer_arms(family: FamilyConfig, arms: int) -> FamilyConfig:
    return replace(family, arms=min(family.arms, arms))


def _log_linear(family: FamilyConfig) -> FamilyConfig:
    return replace(family, discounts="ngu")


def _family(
    family: FamilyConfig, betas: tuple[float, ...], gammas: tuple[float, float, float]
) -> FamilyConfig:
    """Betas by arm, and the longest, the middle and the shortest discount.

    A system without curiosity keeps its betas of 0. A system with one discount keeps it where it
    looks no further ahead than the longest discount here.
    """
    longest, middle, shortest = gammas
    family = replace(
        family,
        max_gamma=min(family.max_gamma, longest),
        middle_gamma=middle,
        min_gamma=shortest,
    )
    return replace(family, betas=betas) if family.is_curious else family


def _shorter(sequence: SequenceConfig, factor: int) -> SequenceConfig:
    return SequenceConfig(
        trace_length=sequence.trace_length // factor,
        replay_period=sequence.replay_period // factor,
        burn_in=sequence.burn_in // factor,
    )


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A step on the way to the default settings of a run."""

    name: str
    why: str
    config: Config  # the settings after this step


def layers(agent: str, scale: str, kind: Kind) -> list[Layer]:
    """Return the steps from the paper's Agent57 to a system at a scale, each with its reason."""
    require(agent in PRESETS, f"--agent {agent!r} is not one of {', '.join(PRESETS)}")
    require(scale in SCALES, f"--scale {scale!r} is not one of {', '.join(SCALES)}")
    found = [Layer(name=agent, why="The system, with the paper's numbers.", config=PRESETS[agent])]
    changes = {f"scale {scale}": SCALES[scale].change}
    if kind in SCALES[scale].kinds:
        changes[f"scale {scale}, {kind}"] = SCALES[scale].kinds[kind]
    for name, change in changes.items():
        why = inspect.getdoc(change) or ""
        found.append(Layer(name=name, why=why, config=change(found[-1].config)))
    return found


def make_config(agent: str, scale: str, kind: Kind = "pixels") -> Config:
    """Return the default settings of a system at a scale for a kind of observation."""
    config = layers(agent, scale, kind)[-1].config
    frames = SCALES[scale].frames[kind]
    run = replace(config.run, agent=agent, scale=scale, kind=kind, frames=frames)
    return replace(config, run=run)


def flatten(config: object, prefix: str = "") -> dict[str, Any]:
    """Return every field of a configuration by its dotted name."""
    values: dict[str, Any] = {}
    for each in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, each.name)
        name = prefix + each.name
        values |= flatten(value, f"{name}.") if dataclasses.is_dataclass(value) else {name: value}
    return values


def options(config: Config) -> list[str]:
    """Return the options of `agent57 train` that make this configuration from the defaults."""
    run = config.run
    default = make_config(run.agent, run.scale, run.kind)
    named = {"env": config.env.name, "agent": run.agent, "scale": run.scale, "seed": run.seed}
    words = [str(word) for name, value in named.items() for word in (f"--{name}", value)]
    for name in ("frames", "device", "runtime"):
        if getattr(run, name) != getattr(default.run, name):
            words += [f"--{name}", str(getattr(run, name))]
    for name, (value, _) in difference(config, default).items():
        if name not in OWN_OPTIONS:
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{name}", *map(str, values)]
    return words


def difference(config: Config, other: Config) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two configurations differ, by their dotted names."""
    ours, theirs = flatten(config), flatten(other)
    return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
