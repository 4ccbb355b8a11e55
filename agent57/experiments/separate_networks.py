"""Random coin (paper, section 4.2): separate networks keep the exploitative policy intact.

NGU and NGU with separate networks are trained for several weights beta of the intrinsic reward.
The exploitative policy (arm 0) should fetch the coin, for a return of 1. The most exploratory
policy should avoid the coin, because the coin ends the episode. With one joint network the
exploitative policy gets worse as beta grows. With separate networks it does not.

The paper trains for 150 million frames, and does not state observation, network or betas. NGU's
table for its own grid task, the Disco Maze, provides 3x3 convolutions, a memory of 5,000, kernel
epsilon 0.01 and no evaluation noise. We chose the rest (NGU's values in brackets), so that 0.6 to
1.2 million frames on two cores are enough:

- gamma 0.95 (0.997 and 0.99), for larger gaps between the values of actions
- a target period of 25 updates (100), for faster learning
- a third convolution (two), traces of 10 steps (50), small networks and many lanes
- lambda 0.95 (0.97) and the value transform h (identity), as in Agent57
- two arms (32), because the figure compares two policies
- priorities scaled per arm, as in MEME: otherwise windows of the exploratory arm would dominate
  the samples at a large beta
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from agent57.config import Config, SequenceConfig
from agent57.experiments.criteria import arm_score, at_least, at_most, minus
from agent57.experiments.experiment import (
    Budget,
    Contestant,
    Experiment,
    Outcome,
    Results,
    budgets,
)
from agent57.presets import Change

AGENTS = {"ngu-sep-nets": "NGU, separate networks", "ngu": "NGU (joint network)"}
POLICIES = {"exploitative": 0, "exploratory": -1}  # name of a policy: its arm
BETAS = (0.01, 0.1, 1.0)


def two_policies(config: Config) -> Config:
    """Reduce the family to the two policies of the figure, and learn fast on a small grid."""
    return replace(
        config,
        family=replace(config.family, arms=2, gammas=(0.95, 0.95)),
        network=replace(
            config.network,
            grid_channels=(8, 16, 32),
            feature_size=128,
            state_size=128,
            head_size=128,
            embedding_size=32,
        ),
        sequence=SequenceConfig(trace_length=10, replay_period=10),
        replay=replace(config.replay, capacity=200_000, min_windows=500, samples_per_insert=6.0),
        learner=replace(
            config.learner,
            batch_size=64,  # about five of these windows are of the exploitative arm at beta 1
            learning_rate=5e-4,
            adam_epsilon=1e-6,
            target_period=25,
            td_scale="priority",
        ),
        curiosity=replace(config.curiosity, kernel_epsilon=0.01, memory_size=5000),
        actor=replace(config.actor, lanes=64, epsilon_alpha=4.0),
        run=replace(config.run, log_frames=20_000, checkpoint_seconds=120.0),
    )


def with_max_beta(beta: float) -> Change:
    """Set the weight of the intrinsic reward for the exploratory policy."""
    return lambda config: replace(config, family=replace(config.family, max_beta=beta))


def label(agent: str, beta: float) -> str:
    """Return the name of a contestant."""
    return f"{agent}, beta {beta:g}"


def experiment() -> Experiment:
    """Return the experiment: both agents at every beta, the highest beta first."""
    lowest, highest = min(BETAS), max(BETAS)
    return Experiment(
        name="random-coin",
        claim="separate networks keep the exploitative policy intact (section 4.2)",
        env="random_coin",
        scale="tiny",
        change=two_policies,
        contestants={
            label(agent, beta): Contestant(agent=agent, change=with_max_beta(beta))
            for beta in reversed(BETAS)
            for agent in AGENTS
        },
        # The full result continues the runs of minutes, if --runs names their folder.
        budgets=budgets(frames=(560_000, 1_200_000), num_seeds=3, num_episodes=(500, 1000)),
        criteria=(
            at_least(
                "separate networks: return of the exploitative policy at its worst beta and seed",
                worst_exploitative,
                0.95,
            ),
            at_most(
                f"separate networks: return of the exploratory policy at beta {highest:g}",
                arm_score(label("ngu-sep-nets", highest), -1),
                0.2,
            ),
            at_least(
                f"joint network: what the exploitative policy loses from beta {lowest:g} "
                f"to {highest:g}",
                minus(arm_score(label("ngu", lowest), 0), arm_score(label("ngu", highest), 0)),
                0.2,
            ),
            at_least(
                f"exploitative policy at beta {highest:g}: separate above joint by",
                minus(
                    arm_score(label("ngu-sep-nets", highest), 0),
                    arm_score(label("ngu", highest), 0),
                ),
                0.2,
            ),
        ),
        draw=draw_bars,
        lines={},
        epsilon=0.0,
        scores_arms=True,
    )


def worst_exploitative(results: Results) -> float:
    """Return the lowest return of separate networks' exploitative policy over betas and seeds."""
    return min(
        outcome.arm_scores[0] for beta in BETAS for outcome in results[label("ngu-sep-nets", beta)]
    )


def draw_bars(experiment: Experiment, budget: Budget, results: Results, out: Path) -> list[str]:
    """Draw the paper's figure: both policies per beta, one panel per agent, NGU first."""
    from agent57.reports.figures import grouped_bars

    panels = {
        title: {
            policy: [bar(results[label(agent, beta)], arm) for beta in BETAS]
            for policy, arm in POLICIES.items()
        }
        for agent, title in reversed(AGENTS.items())
    }
    seeds = "1 seed" if budget.num_seeds == 1 else f"{budget.num_seeds} seeds"
    lines = "lowest and highest seed" if budget.num_seeds > 1 else "standard error over episodes"
    grouped_bars(
        panels,
        groups=[f"{beta:g}" for beta in BETAS],
        x_label="intrinsic reward weight beta",
        y_label="extrinsic return",
        note=f"random coin, {budget.frames:,} steps, {budget.num_episodes} episodes per policy, "
        f"{seeds}; bars: mean, lines: {lines}",
        files=[out / "random_coin.png", out / "random_coin.svg"],
    )
    return ["random_coin"]


def bar(outcomes: list[Outcome], arm: int) -> tuple[float, float, float]:
    """Return an arm's mean return, and the lowest and highest seed.

    With one seed, return the mean and one standard error below and above.
    """
    scores = [outcome.arm_scores[arm] for outcome in outcomes]
    mean = float(np.mean(scores))
    if len(scores) > 1:
        return mean, min(scores), max(scores)
    error = outcomes[0].arm_errors[arm]
    return mean, mean - error, mean + error
