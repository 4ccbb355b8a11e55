"""The paper's claims, each on a task that isolates it and fits on two cores.

`SETTINGS` holds one set of hyperparameters for each kind of observation; experiments add only what
their claim is about.
"""

from agent57.envs.toy import Discounting, Mine
from agent57.experiments.criteria import (
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
from agent57.experiments.experiment import Budget, Contestant, Criterion, Experiment

# NGU's kernel epsilon for small grids keeps the episodic novelty near 1 to 3 on average. Of the
# paper's eight betas five are near the largest. Pong has arms from small to large ones. In grids,
# whose one reward ends the episode, beta_j / (1 - gamma_j) is 0.3 to 0.6: below, an arm does not
# look around; from about 0.9 on it hardly ever comes to the end.
SETTINGS = {
    "pixels": (
        "--scale", "laptop",
        "--env.actions", "minimal",  # Pong's 18 have three effects, and Retrace cuts among equals
        "--curiosity.kernel-epsilon", "0.01",
        "--family.betas", "0", "0.0001", "0.0003", "0.0006", "0.001", "0.002", "0.003", "0.01",
        "--family.max-gamma", "0.99",
        "--family.middle-gamma", "0.985",
        "--family.min-gamma", "0.97",
        "--network.reward-input", "squash",
        "--network.initial-weights", "scaled",  # outputs near 0, or the best of many is too good
        "--replay.samples-per-insert", "8",
    ),
    "grid": (
        "--scale", "laptop",
        "--curiosity.kernel-epsilon", "0.01",
        "--curiosity.error-horizon", "1000",  # forgets RND's first errors, or alpha stays at 1
        "--family.betas", "0", "0.01", "0.014", "0.018", "0.018", "0.022", "0.026", "0.03",
        "--family.max-gamma", "0.98",  # beyond that a wasted step costs less than the noise
        "--family.middle-gamma", "0.97",
        "--family.min-gamma", "0.95",
        "--network.grid-channels", "8", "16", "32",
        "--network.feature_size", "128",
        "--network.state_size", "128",
        "--network.head_size", "128",
        "--network.initial-weights", "scaled",
        "--network.view-gain", "20",  # or a cell's symbol is less in the core than r^i's changes
        "--network.forget-bias", "3",
        "--network.head-slope", "0.01",  # or the heads of Q^e die while no reward is met
        "--sequence.trace_length", "40",
        "--sequence.replay_period", "20",
        "--replay.capacity", "200000",
        "--replay.min-windows", "200",
        "--learner.batch_size", "16",
        "--learner.learning-rate", "5e-4",
        "--learner.adam-epsilon", "1e-6",
        "--learner.target-period", "300",
        "--actor.lanes", "32",
        "--evaluator-controller.window", "100",
        "--curiosity.memory_size", "5000",
    ),
    "vector": (
        "--scale", "laptop",
        "--network.feature_size", "64",
        "--network.state_size", "64",
        "--network.head_size", "64",
        "--sequence.trace_length", "40",
        "--sequence.replay_period", "20",
        "--replay.capacity", "200000",
        "--replay.min-windows", "200",
        "--replay.samples-per-insert", "8",
        "--learner.batch_size", "32",
        "--learner.learning-rate", "1e-3",
        "--learner.adam-epsilon", "1e-6",
        "--learner.target-period", "50",
        "--controller.window", "160",
        "--evaluator-controller.window", "100",  # of the hundreds of episodes that it plays
        "--curiosity.memory_size", "5000",
        "--curiosity.kernel-epsilon", "0.01",
    ),
}  # fmt: skip

# Of R2D2, which has one arm, in the settings of its rivals.
ONE_ARM = ("--family.arms", "1", "--family.betas", "0")
R2D2 = Contestant(agent="r2d2", options=(*ONE_ARM, "--sequence.burn-in", "20"))

PONG = Experiment(
    name="pong",
    claim="it learns Atari games from pixels",
    env="pong",
    settings=SETTINGS["pixels"],
    contestants={"agent57": Contestant(agent="agent57")},
    budgets={
        "minutes": Budget(frames=1_000_000, num_seeds=1, num_episodes=5),
        "full": Budget(frames=2_900_000, num_seeds=1, num_episodes=20),  # two hours and a half
    },
    criteria=(
        Criterion(
            text="agent57: mean of the last 20 evaluation episodes",
            measure=evaluator_score("agent57"),
            target=18.0,
        ),
        Criterion(
            text="agent57: seconds of training",
            measure=training_seconds("agent57"),
            target=3 * 3600.0,
            is_at_least=False,
        ),
    ),
    draw=draw_curves_and_arms,
    lines={"random": -20.7, "perfect": 21.0},
)

KEY_CORRIDOR = Experiment(
    name="key-corridor",
    claim="intrinsic motivation solves tasks with sparse reward",
    env="MiniGrid-KeyCorridorS3R3-v0",
    settings=SETTINGS["grid"],
    contestants={"agent57": Contestant(agent="agent57"), "r2d2": R2D2},
    budgets={
        "minutes": Budget(frames=2_000_000, num_seeds=1, num_episodes=100),
        "full": Budget(frames=4_000_000, num_seeds=3, num_episodes=200),
    },
    criteria=(
        Criterion(text="agent57: mean return", measure=final_score("agent57"), target=0.8),
        Criterion(
            text="r2d2 with the same frames: mean return",
            measure=final_score("r2d2"),
            target=0.1,
            is_at_least=False,
        ),
    ),
    draw=draw_curves_and_arms,
    lines={"target": 0.8},
)

PATIENT_GAMMA = (Discounting.pays[1] / Discounting.pays[2]) ** (
    1 / (Discounting.delays[2] - Discounting.delays[1])
)  # 0.99818: from here on the chain that pays last is worth most

# R2D2 with Retrace, as in the paper's comparison of discounts: n-step returns would count the slips
# of lanes that explore, which are the only ones to try the chains that are not best.
IMPATIENT = "r2d2-retrace, gamma 0.997"

DISCOUNT = Experiment(
    name="discount",
    claim="the bandit adapts the discount to the task",
    env="toy/discounting",
    settings=SETTINGS["vector"],
    contestants={
        "agent57": Contestant(agent="agent57"),
        IMPATIENT: Contestant(agent="r2d2-retrace", options=ONE_ARM),
    },
    budgets={
        "minutes": Budget(frames=600_000, num_seeds=1, num_episodes=32),
        "full": Budget(frames=600_000, num_seeds=3, num_episodes=32),
    },
    criteria=(
        Criterion(
            text="agent57: mean return",
            measure=final_score("agent57"),
            target=0.95 * Discounting.optimal_return,
        ),
        Criterion(
            text="agent57: share of plays of the one arm of 8 with the longest horizon, "
            "in the last quarter,",
            measure=share_of_plays(
                "agent57", lambda beta, gamma: gamma > PATIENT_GAMMA, start=0.75, stop=1.0
            ),
            target=0.35,  # half of the plays are random: 0.125 is chance, 0.56 the most
        ),
        Criterion(
            text=f"{IMPATIENT}: mean return",
            measure=final_score(IMPATIENT),
            target=Discounting.pays[1],
            is_at_least=False,
        ),
    ),
    draw=draw_curves_and_arms,
    lines=dict(zip(("first chain", "second chain", "best"), Discounting.pays, strict=True)),
    scores_arms=True,
)

# The cue of MemoryS11 is out of sight about eight steps before the choice. Windows of four steps
# carry no gradient that far; ten times as many in a batch make updates of the same size, and
# twice the samples per insert, where windows do not overlap, as many of them.
SHORT_TRACE = (
    "--sequence.trace_length", "4",
    "--sequence.replay_period", "4",
    "--learner.batch_size", "160",
    "--replay.samples-per-insert", "8",
)  # fmt: skip

MEMORY = Experiment(
    name="memory",
    claim="recurrence and a longer window help credit assignment",
    env="MiniGrid-MemoryS11-v0",
    settings=SETTINGS["grid"],
    contestants={
        "agent57": Contestant(agent="agent57"),
        "trace of 4 steps": Contestant(agent="agent57", options=SHORT_TRACE),
        "no recurrence": Contestant(agent="agent57", options=("--network.core", "none")),
    },
    budgets={
        "minutes": Budget(frames=1_500_000, num_seeds=1, num_episodes=100),
        "full": Budget(frames=1_500_000, num_seeds=3, num_episodes=200),
    },
    criteria=(
        Criterion(text="agent57: mean return", measure=final_score("agent57"), target=0.9),
        Criterion(
            text="trace of 4 steps: mean return",
            measure=final_score("trace of 4 steps"),
            target=0.7,
            is_at_least=False,
        ),
        Criterion(
            text="no recurrence: mean return",
            measure=final_score("no recurrence"),
            target=0.7,
            is_at_least=False,
        ),
    ),
    draw=draw_curves_and_arms,
    lines={"target": 0.9, "guessing": 0.5},
)

# Without bandits arms are chosen as the paper's NGU does: drawn by actors, arm 0 in evaluations.
WITHOUT_BANDITS = ("--controller.kind", "uniform", "--evaluator-controller.kind", "exploit")

EXPLORATION_BANDIT = Experiment(
    name="exploration-bandit",
    claim="the bandit chooses a useful exploration rate: high beta early, low beta late",
    env="toy/mine",
    settings=SETTINGS["vector"],
    contestants={
        "agent57": Contestant(agent="agent57"),
        "uniform choice": Contestant(agent="agent57", options=WITHOUT_BANDITS),
        "r2d2": R2D2,
    },
    budgets={
        "minutes": Budget(frames=500_000, num_seeds=1, num_episodes=32),
        "full": Budget(frames=500_000, num_seeds=6, num_episodes=32),
    },
    criteria=(
        Criterion(
            text="agent57: mean return",
            measure=final_score("agent57"),
            target=0.9 * Mine.optimal_return,
        ),
        Criterion(
            text="agent57: beta of the best arm until actors earn half of the best return, "
            "less that of the best arm in the last fifth,",
            measure=minus(
                early_best_beta("agent57", Mine.optimal_return / 2), late_best_beta("agent57")
            ),
            target=0.1,
        ),
        Criterion(
            text="agent57: share of plays of the arms of beta 0.1 and above, in the last fifth,",
            measure=share_of_plays("agent57", lambda beta, gamma: beta >= 0.1, start=0.8, stop=1.0),
            target=0.5,  # five of eight: 0.625 is chance
            is_at_least=False,
        ),
        Criterion(
            text="uniform choice less agent57: frames until half of the best return, "
            "less two standard errors,",
            measure=frames_behind("uniform choice", "agent57", Mine.optimal_return / 2),
            target=0.0,
        ),
        Criterion(
            text="r2d2, which is not curious: mean return",
            measure=final_score("r2d2"),
            target=0.0,
            is_at_least=False,
        ),
    ),
    draw=draw_curves_and_arms,
    lines={"best": Mine.optimal_return, "standing still": 0.0},
    scores_arms=True,
)
