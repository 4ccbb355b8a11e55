"""The paper's claims, each on a task that isolates the claim and fits on two cores.

Every run starts from the default settings of its task. A contestant changes only those settings
that the claim is about.
"""

from dataclasses import replace

from agent57.config import Config, FamilyConfig, SequenceConfig
from agent57.envs.toy import Discounting, Mine
from agent57.experiments.criteria import (
    at_least,
    at_most,
    early_best_beta,
    evaluator_score,
    final_score,
    frames_behind,
    late_best_beta,
    minus,
    share_of_plays,
    training_seconds,
)
from agent57.experiments.drawing import draw_curves_and_arms
from agent57.experiments.experiment import Contestant, Criterion, Experiment, budgets
from agent57.presets import PRESETS

AGENT57 = {"agent57": Contestant(agent="agent57")}


def reaches(target: float) -> Criterion:
    """Require at least this mean return of agent57's final policies."""
    return at_least("agent57: mean return", final_score("agent57"), target)


def stays_below(contestant: str, target: float, note: str = "") -> Criterion:
    """Require at most this mean return of a contestant's final policies."""
    return at_most(f"{contestant}{note}: mean return", final_score(contestant), target)


def former_vectors(config: Config) -> Config:
    """Restore the settings for vectors with which the results of the two toys were measured.

    The defaults for vectors have changed since. The family is the paper's, because these claims
    are about its discounts and betas. The other fields have their former defaults.
    """
    curious = config.family.arms > 1
    family = FamilyConfig() if curious else PRESETS[config.run.agent].family
    return replace(
        config,
        family=replace(family, arms=config.family.arms),
        controller=replace(config.controller, window=160),
        evaluator_controller=replace(config.evaluator_controller, window=100),
        network=replace(
            config.network,
            normalise="none",
            vector_input="raw",
            reward_input="raw",
            average_rate=0.0,
            skip=False,
        ),
        sequence=SequenceConfig(
            trace_length=2 * config.sequence.trace_length,
            replay_period=2 * config.sequence.replay_period,
            burn_in=2 * config.sequence.burn_in,
        ),
        replay=replace(config.replay, samples_per_insert=8.0),
        learner=replace(
            config.learner,
            learning_rate=1e-3,
            td_scale="priority",
            cross_mixture=1.0,
            precision="float32",
        ),
        curiosity=replace(config.curiosity, error_horizon=0, reward_horizon=0),
    )


PONG = Experiment(
    name="pong",
    claim="it learns Atari games from pixels",
    env="pong",
    contestants=AGENT57,
    criteria=(
        at_least(
            "agent57: mean of the last 20 evaluation episodes", evaluator_score("agent57"), 18.0
        ),
        at_most("agent57: seconds of training", training_seconds("agent57"), 3 * 3600.0),
    ),
    # The full budget takes two hours and a half.
    budgets=budgets(frames=(1_000_000, 2_900_000), num_seeds=1, num_episodes=(5, 20)),
    draw=draw_curves_and_arms,
    lines={"random": -20.7, "perfect": 21.0},
)

KEY_CORRIDOR = Experiment(
    name="key-corridor",
    claim="intrinsic motivation solves tasks with sparse reward",
    env="MiniGrid-KeyCorridorS3R3-v0",
    contestants={**AGENT57, "r2d2": Contestant(agent="r2d2")},
    criteria=(
        reaches(0.8),
        stays_below("r2d2", 0.1, " with the same frames"),
    ),
    budgets=budgets(frames=(2_000_000, 4_000_000), num_seeds=3, num_episodes=(100, 200)),
    draw=draw_curves_and_arms,
    lines={"target": 0.8},
)

PATIENT_GAMMA = (Discounting.pays[1] / Discounting.pays[2]) ** (
    1 / (Discounting.delays[2] - Discounting.delays[1])
)  # 0.99818: the chain that pays last is worth most from this gamma on

# R2D2 with Retrace, as in the paper's comparison of discounts. N-step returns would include the
# slips of exploring lanes, and only these lanes try the chains that are not best. The long trace
# gives both contestants windows of the same length.
IMPATIENT = "r2d2-retrace, gamma 0.997"

DISCOUNT = Experiment(
    name="discount",
    claim="the bandit adapts the discount to the task",
    env="toy/discounting",
    change=former_vectors,
    contestants={**AGENT57, IMPATIENT: Contestant(agent="r2d2-retrace-long-trace")},
    criteria=(
        reaches(0.95 * Discounting.optimal_return),
        at_least(
            "agent57: share of plays of the one arm of 8 with the longest horizon, "
            "in the last quarter,",
            share_of_plays(
                "agent57", lambda beta, gamma: gamma > PATIENT_GAMMA, start=0.75, stop=1.0
            ),
            0.35,  # half of the plays are random: 0.125 is chance, 0.56 the maximum
        ),
        stays_below(IMPATIENT, Discounting.pays[1]),
    ),
    budgets=budgets(frames=(600_000, 600_000), num_seeds=3, num_episodes=(32, 32)),
    draw=draw_curves_and_arms,
    lines=dict(zip(("first chain", "second chain", "best"), Discounting.pays, strict=True)),
    scores_arms=True,
)


def short_trace(config: Config) -> Config:
    """Cut windows of four steps, with unchanged steps per update and number of updates.

    The cue of MemoryS11 is last seen about eight steps before the choice. Windows of four steps
    carry no gradient so far back. They do not overlap, so samples per insert are doubled.
    """
    steps_per_update = config.learner.batch_size * config.sequence.trace_length
    samples = 2 * config.replay.samples_per_insert
    return replace(
        config,
        sequence=SequenceConfig(trace_length=4, replay_period=4),
        learner=replace(config.learner, batch_size=steps_per_update // 4),
        replay=replace(config.replay, samples_per_insert=samples),
    )


def no_recurrence(config: Config) -> Config:
    """Leave out the LSTM."""
    return replace(config, network=replace(config.network, core="none"))


MEMORY = Experiment(
    name="memory",
    claim="recurrence and a longer window help credit assignment",
    env="MiniGrid-MemoryS11-v0",
    contestants={
        **AGENT57,
        "trace of 4 steps": Contestant(agent="agent57", change=short_trace),
        "no recurrence": Contestant(agent="agent57", change=no_recurrence),
    },
    criteria=(
        reaches(0.9),
        stays_below("trace of 4 steps", 0.7),
        stays_below("no recurrence", 0.7),
    ),
    budgets=budgets(frames=(1_500_000, 1_500_000), num_seeds=3, num_episodes=(100, 200)),
    draw=draw_curves_and_arms,
    lines={"target": 0.9, "guessing": 0.5},
)


def without_bandits(config: Config) -> Config:
    """Choose arms as the paper's NGU does: actors draw them at random, evaluations play arm 0."""
    return replace(
        config,
        controller=replace(config.controller, kind="uniform"),
        evaluator_controller=replace(config.evaluator_controller, kind="exploit"),
    )


EXPLORATION_BANDIT = Experiment(
    name="exploration-bandit",
    claim="the bandit chooses a useful exploration rate: high beta early, low beta late",
    env="toy/mine",
    change=former_vectors,
    contestants={
        **AGENT57,
        "uniform choice": Contestant(agent="agent57", change=without_bandits),
        "r2d2": Contestant(agent="r2d2"),
    },
    criteria=(
        reaches(0.9 * Mine.optimal_return),
        at_least(
            "agent57: beta of the best arm until actors earn half of the best return, "
            "less that of the best arm in the last fifth,",
            minus(early_best_beta("agent57", Mine.optimal_return / 2), late_best_beta("agent57")),
            0.1,
        ),
        at_most(
            "agent57: share of plays of the arms of beta 0.1 and above, in the last fifth,",
            share_of_plays("agent57", lambda beta, gamma: beta >= 0.1, start=0.8, stop=1.0),
            0.5,  # five of eight: 0.625 is chance
        ),
        at_least(
            "uniform choice less agent57: frames until half of the best return, "
            "less two standard errors,",
            frames_behind("uniform choice", "agent57", Mine.optimal_return / 2),
            0.0,
        ),
        stays_below("r2d2", 0.0, ", which is not curious"),
    ),
    budgets=budgets(frames=(500_000, 500_000), num_seeds=6, num_episodes=(32, 32)),
    draw=draw_curves_and_arms,
    lines={"best": Mine.optimal_return, "standing still": 0.0},
    scores_arms=True,
)
