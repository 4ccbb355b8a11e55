"""Random coin (paper, section 4.2): separate networks keep the exploitative policy intact.

NGU and NGU with separate networks are trained for several weights beta of the intrinsic reward.
The exploitative policy (arm 0) should fetch the coin, return 1; the most exploratory one should
avoid it, because the episode ends there. With one joint network the exploitative policy suffers as
beta grows; with separate networks it does not.

Choices the paper leaves open: the constants below follow NGU's Disco Maze table where it has one
(3x3 convolutions, memory of 5,000, kernel epsilon 0.01, target period 100, no evaluation noise).
Networks are small, windows short and lanes many, so that two cores suffice; two arms, because the
figure compares two policies.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from agent57.envs.make import make_env
from agent57.records.figures import grouped_bars
from agent57.records.progress import ProgressView
from agent57.runtime.evaluate import play_episodes
from agent57.runtime.jobs import Job, JobQueue
from agent57.runtime.trained import TrainedRun

AGENTS = {"ngu": "NGU (joint network)", "ngu-sep-nets": "NGU, separate networks"}
POLICIES = ("exploitative", "exploratory")
MIN_EXPLOITATIVE = 0.95  # what separate networks must reach at every beta

SETTINGS = (
    "--env", "random_coin",
    "--scale", "tiny",
    "--family.arms", "2",
    "--network.grid-channels", "8", "16",
    "--network.features", "128",
    "--network.state", "128",
    "--network.head", "128",
    "--network.embedding", "32",
    "--sequence.trace", "10",
    "--sequence.period", "10",
    "--replay.capacity", "200000",
    "--replay.min-windows", "500",
    "--replay.samples-per-insert", "2",
    "--learner.batch", "32",
    "--learner.learning-rate", "1e-3",
    "--learner.adam-epsilon", "1e-6",
    "--learner.target-period", "100",
    "--curiosity.kernel-epsilon", "0.01",
    "--curiosity.memory", "5000",
    "--actor.lanes", "64",
    "--actor.epsilon-alpha", "3",
    "--run.threads", "1",
    "--run.log-frames", "20000",
    "--run.checkpoint-seconds", "120",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much to spend."""

    betas: tuple[float, ...]
    num_seeds: int
    frames: int
    num_episodes: int  # played with each policy in the end


BUDGETS = {
    "minutes": Budget(betas=(0.01, 0.1, 1.0), num_seeds=1, frames=800_000, num_episodes=500),
    "full": Budget(
        betas=(0.01, 0.03, 0.1, 0.3, 1.0), num_seeds=3, frames=2_000_000, num_episodes=1000
    ),
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One trained run, evaluated: the mean extrinsic return of both policies."""

    agent: str
    beta: float
    seed: int
    exploitative: float
    exploratory: float


def jobs(budget: Budget, out: Path) -> dict[tuple[str, float, int], Job]:
    """Every run of the experiment."""
    return {
        (agent, beta, seed): Job(
            name=f"{agent}, beta {beta:g}, seed {seed}",
            folder=out / f"{agent}-beta{beta:g}-seed{seed}",
            options=(
                "--agent", agent, "--seed", str(seed), *SETTINGS, "--family.max-beta", str(beta),
            ),
            frames=budget.frames,
        )
        for seed in range(budget.num_seeds)
        for beta in budget.betas
        for agent in AGENTS
    }  # fmt: skip


def reproduce(budget_name: str, out: Path, num_parallel: int, console: Console) -> bool:
    """Train, evaluate, compare; whether the paper's claim was seen."""
    budget = BUDGETS[budget_name]
    planned = jobs(budget, out)
    JobQueue(list(planned.values()), num_parallel, console).run()
    outcomes = []
    with ProgressView(console, "playing", len(planned), "runs") as progress:
        for (agent, beta, seed), job in planned.items():
            returns = [mean_return(job.folder, arm, budget.num_episodes) for arm in (0, -1)]
            outcomes.append(
                Outcome(
                    agent=agent,
                    beta=beta,
                    seed=seed,
                    exploitative=returns[0],
                    exploratory=returns[1],
                )
            )
            progress.show(len(outcomes))
    write_csv(out / "random_coin.csv", outcomes)
    draw(outcomes, budget, out)
    return verdict(outcomes, console)


def mean_return(folder: Path, arm: int, num_episodes: int) -> float:
    """Extrinsic return of one policy without noise; arm -1 is the most exploratory."""
    torch.set_num_threads(1)
    run = TrainedRun.load(folder)
    env = make_env(run.config.env, 64)
    try:
        player = run.make_player(env, epsilon=0.0, seed=1, device=torch.device("cpu"))
        episodes = play_episodes(player, env, arm % run.config.family.arms, num_episodes)
    finally:
        env.close()
    return float(np.mean([episode.episode_return for episode in episodes]))


def write_csv(file: Path, outcomes: list[Outcome]) -> None:
    """One row per run."""
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["agent", "beta", "seed", *POLICIES])
        for o in outcomes:
            writer.writerow([o.agent, o.beta, o.seed, o.exploitative, o.exploratory])


def draw(outcomes: list[Outcome], budget: Budget, out: Path) -> None:
    """The paper's figure: both policies per beta, one panel per agent."""
    panels = {
        title: {
            policy: [
                [getattr(o, policy) for o in outcomes if (o.agent, o.beta) == (agent, beta)]
                for beta in budget.betas
            ]
            for policy in POLICIES
        }
        for agent, title in AGENTS.items()
    }
    grouped_bars(
        panels,
        groups=[f"{beta:g}" for beta in budget.betas],
        x_label="intrinsic reward weight beta",
        y_label="extrinsic return",
        note=f"random coin, {budget.frames:,} steps, {budget.num_episodes} episodes per policy, "
        f"{budget.num_seeds} seed(s); bars: mean, lines: lowest and highest seed",
        files=[out / "random_coin.png", out / "random_coin.svg"],
    )


def verdict(outcomes: list[Outcome], console: Console) -> bool:
    """Print what was measured and whether it is what the paper claims."""
    table = Table("agent", "beta", "seeds", *POLICIES, title="mean extrinsic return")
    means: dict[tuple[str, float], tuple[float, float]] = {}
    for key in dict.fromkeys((o.agent, o.beta) for o in outcomes):
        group = [o for o in outcomes if (o.agent, o.beta) == key]
        means[key] = (
            float(np.mean([o.exploitative for o in group])),
            float(np.mean([o.exploratory for o in group])),
        )
        row = (f"{means[key][0]:.3f}", f"{means[key][1]:.3f}")
        table.add_row(key[0], f"{key[1]:g}", str(len(group)), *row)
    console.print(table)
    separate = {beta: m for (agent, beta), m in means.items() if agent == "ngu-sep-nets"}
    joint = {beta: m for (agent, beta), m in means.items() if agent == "ngu"}
    highest = max(separate)
    checks = {
        f"separate networks: exploitative policy above {MIN_EXPLOITATIVE} at every beta": all(
            exploitative > MIN_EXPLOITATIVE for exploitative, _ in separate.values()
        ),
        f"separate networks: exploratory policy avoids the coin at beta {highest:g}": (
            separate[highest][1] < separate[highest][0] / 2
        ),
        f"joint network: exploitative policy worse at beta {highest:g} than separate networks": (
            joint[highest][0] < separate[highest][0] - 0.05
        ),
    }
    for text, is_met in checks.items():
        console.print(f"{'pass' if is_met else 'FALLS SHORT'}: {text}", highlight=False)
    return all(checks.values())
