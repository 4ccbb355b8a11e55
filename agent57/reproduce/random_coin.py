"""Random coin (paper, section 4.2): separate networks keep the exploitative policy intact.

NGU and NGU with separate networks are trained for several weights beta of the intrinsic reward.
The exploitative policy (arm 0) should fetch the coin, return 1; the most exploratory one should
avoid it, because the episode ends there. With one joint network the exploitative policy suffers as
beta grows; with separate networks it does not.

Choices the paper leaves open: the constants below follow NGU's Disco Maze table where it has one
(3x3 convolutions, memory of 5,000, kernel epsilon 0.01, no evaluation noise). The discount is lower
and the target period shorter, for larger gaps between actions and faster learning; priorities are
scaled per arm, or the exploratory arm would have the replay to itself at a large beta.
Networks are small, windows short and lanes many, so that two cores suffice; two arms, because the
figure compares two policies.
"""

from pathlib import Path

from agent57.reproduce.criteria import arm_score, minus, over
from agent57.reproduce.experiment import Budget, Contestant, Criterion, Experiment, Results

AGENTS = {"ngu-sep-nets": "NGU, separate networks", "ngu": "NGU (joint network)"}
POLICIES = {"exploitative": 0, "exploratory": -1}  # and their arms
MIN_EXPLOITATIVE = 0.95  # what separate networks must reach at every beta

SETTINGS = (
    "--scale", "tiny",
    "--family.arms", "2",
    "--family.gammas", "0.95", "0.95",
    "--network.grid-channels", "8", "16", "32",
    "--network.features", "128",
    "--network.state", "128",
    "--network.head", "128",
    "--network.embedding", "32",
    "--sequence.trace", "10",
    "--sequence.period", "10",
    "--replay.capacity", "200000",
    "--replay.min-windows", "500",
    "--replay.samples-per-insert", "3",
    "--learner.batch", "32",
    "--learner.learning-rate", "1e-3",
    "--learner.adam-epsilon", "1e-6",
    "--learner.target-period", "25",
    "--learner.td-scale", "priority",
    "--curiosity.kernel-epsilon", "0.01",
    "--curiosity.memory", "5000",
    "--actor.lanes", "64",
    "--actor.epsilon-alpha", "4",
    "--run.log-frames", "20000",
    "--run.checkpoint-seconds", "120",
)  # fmt: skip


BETAS = {"minutes": (0.01, 0.1, 1.0), "full": (0.01, 0.03, 0.1, 0.3, 1.0)}  # that a budget pays for


def label(agent: str, beta: float) -> str:
    """What a contestant is called."""
    return f"{agent}, beta {beta:g}"


def experiment() -> Experiment:
    """Both agents at every beta."""
    betas = sorted(set().union(*BETAS.values()), reverse=True)
    shared = set(betas).intersection(*BETAS.values())
    lowest, highest = min(shared), max(shared)
    labels = {
        name: tuple(label(agent, beta) for beta in paid for agent in AGENTS)
        for name, paid in BETAS.items()
    }
    return Experiment(
        name="random-coin",
        claim="separate networks keep the exploitative policy intact (section 4.2)",
        env="random_coin",
        settings=SETTINGS,
        contestants={
            label(agent, beta): Contestant(agent=agent, options=("--family.max-beta", f"{beta:g}"))
            for agent in AGENTS
            for beta in betas
        },
        budgets={
            "minutes": Budget(
                frames=1_200_000, num_seeds=1, num_episodes=500, labels=labels["minutes"]
            ),
            "full": Budget(frames=2_000_000, num_seeds=3, num_episodes=1000, labels=labels["full"]),
        },
        criteria=(
            Criterion(
                text="separate networks: return of the exploitative policy at its worst beta",
                measure=worst_exploitative,
                target=MIN_EXPLOITATIVE,
            ),
            Criterion(
                text=f"separate networks: exploratory over exploitative return at beta {highest:g}",
                measure=over(
                    arm_score(label("ngu-sep-nets", highest), -1),
                    arm_score(label("ngu-sep-nets", highest), 0),
                ),
                target=0.5,
                is_at_least=False,
            ),
            Criterion(
                text=f"joint network: what the exploitative policy loses from beta {lowest:g} "
                f"to {highest:g}",
                measure=minus(
                    arm_score(label("ngu", lowest), 0), arm_score(label("ngu", highest), 0)
                ),
                target=0.05,
            ),
            Criterion(
                text=f"exploitative policy at beta {highest:g}: separate above joint by",
                measure=minus(
                    arm_score(label("ngu-sep-nets", highest), 0),
                    arm_score(label("ngu", highest), 0),
                ),
                target=0.05,
            ),
        ),
        draw=draw_bars,
        lines={},
        epsilon=0.0,
        scores_arms=True,
    )


def worst_exploitative(results: Results) -> float:
    """The lowest mean return over seeds of separate networks' exploitative policy."""
    labels = [name for name in results if name.startswith("ngu-sep-nets")]
    return min(arm_score(name, 0)(results) for name in labels)


def draw_bars(experiment: Experiment, budget: Budget, results: Results, out: Path) -> list[str]:
    """The paper's figure: both policies per beta, one panel per agent."""
    from agent57.records.figures import grouped_bars

    betas = sorted({float(name.rpartition(" ")[2]) for name in results})
    panels = {
        title: {
            policy: [[o.arm_scores[arm] for o in results[label(agent, beta)]] for beta in betas]
            for policy, arm in POLICIES.items()
        }
        for agent, title in AGENTS.items()
    }
    grouped_bars(
        panels,
        groups=[f"{beta:g}" for beta in betas],
        x_label="intrinsic reward weight beta",
        y_label="extrinsic return",
        note=f"random coin, {budget.frames:,} steps, {budget.num_episodes} episodes per policy, "
        f"{budget.num_seeds} seed(s); bars: mean, lines: lowest and highest seed",
        files=[out / "random_coin.png", out / "random_coin.svg"],
    )
    return ["random_coin"]
