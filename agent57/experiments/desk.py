"""The desk suite: tasks that the default settings must learn on two cores, each with a target.

A run is scored by its final policy, the surest arm of the evaluator's bandit. The table also shows
scores that others report, and baselines that `trials/sb3_baselines.py` trained for the same steps.
"""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agent57.config import ConfigError, require
from agent57.defaults import default_config
from agent57.experiments.jobs import Job
from agent57.experiments.measure import episode_returns
from agent57.experiments.suite_runs import Entry, Suite
from agent57.storage.files import write_atomic
from agent57.trained.trained_run import TrainedRun

NAME = "desk"
SCORE_FILE = "final.json"  # in a run folder: the returns of its final policy
BASELINES_FILE = "baselines.json"
EPSILON = 0.01


@dataclass(frozen=True)
class DeskTask:
    """One task, its budget and its target."""

    env: str
    frames: int  # emulator frames on Atari, agent steps elsewhere
    target: float  # mean return that the final policy must reach
    random: float  # mean return of random play
    num_seeds: int  # three if a run takes an hour or less
    num_episodes: int  # played by the final policy
    elsewhere: str  # scores that others report


# env, frames, target, random, num_seeds, num_episodes, elsewhere
TASKS = tuple(
    DeskTask(*row)
    for row in (
        ("CartPole-v1", 150_000, 475.0, 23.7, 3, 100, ""),
        ("Acrobot-v1", 150_000, -100.0, -494.0, 3, 100, ""),
        ("MountainCar-v0", 300_000, -130.0, -200.0, 3, 100, "CleanRL PQN: -200, never solved"),
        ("LunarLander-v3", 500_000, 200.0, -210.0, 3, 100, ""),
        ("MiniGrid-DoorKey-8x8-v0", 500_000, 0.9, 0.007, 3, 100,
         "DEIR: 0.908 after 123,000 steps"),
        ("MiniGrid-MultiRoom-N4-S5-v0", 2_000_000, 0.7, 0.0, 1, 100,
         "SB3 zoo PPO: 0.000 after 10,000,000 steps"),
        ("MiniGrid-KeyCorridorS3R3-v0", 2_500_000, 0.8, 0.0, 1, 100,
         "RIDE's budget: 30,000,000 steps; RAPID: about 3,000,000 with imitation"),
        ("MiniGrid-MemoryS11-v0", 1_500_000, 0.9, 0.31, 1, 100, ""),
        ("pong", 2_000_000, 18.0, -20.7, 1, 20,
         "SB3 zoo after 40,000,000 frames: PPO 21.0, DQN 20.6; "
         "DreamerV3: 18 at 11 to 32 million frames"),
        ("breakout", 4_000_000, 30.0, 1.7, 1, 20, ""),
    )
)  # fmt: skip


def chosen_tasks(only: str) -> tuple[DeskTask, ...]:
    """Return the tasks named in NAME,NAME; all tasks if the text is empty."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = {task.env: task for task in TASKS}
    for name in names:
        require(
            name in known, f"--only {name!r} is not a task of the desk suite: {', '.join(known)}"
        )
    return tuple(known[name] for name in names) or TASKS


def desk_suite(
    tasks: tuple[DeskTask, ...],
    agents: tuple[str, ...],
    scale: str,
    num_seeds: int | None = None,
    frames: int | None = None,
) -> Suite:
    """Return a suite with the default settings of each agent on each task."""
    entries = []
    for task in tasks:
        for agent in agents:
            config = default_config(task.env, agent, scale)
            run = replace(config.run, frames=task.frames if frames is None else frames)
            seeds = task.num_seeds if num_seeds is None else num_seeds
            entries.append(Entry(config=replace(config, run=run), num_seeds=seeds))
    return Suite(name=NAME, scale=scale, entries=tuple(entries))


@dataclass(frozen=True, kw_only=True)
class DeskScore:
    """The scores of one system on one task."""

    task: DeskTask
    system: str
    seed_scores: tuple[float, ...]  # mean return of the final policy, by seed
    frames: int
    hours: float  # mean training time of a run; nan if unknown

    @property
    def score(self) -> float:
        """Mean of the scores over seeds."""
        return float(np.mean(self.seed_scores))

    @property
    def error(self) -> float:
        """Standard error of the scores over seeds; nan with one seed."""
        count = len(self.seed_scores)
        return float(np.std(self.seed_scores, ddof=1) / count**0.5) if count > 1 else float("nan")

    @property
    def is_met(self) -> bool:
        """Whether the score reaches the target."""
        return self.score >= self.task.target

    @property
    def share(self) -> float:
        """Score on a scale where random play is 0 and the target is 1."""
        return (self.score - self.task.random) / (self.task.target - self.task.random)


def score_runs(
    tasks: tuple[DeskTask, ...], jobs: list[Job], tell: Callable[[str], None]
) -> list[DeskScore]:
    """Play the final policies of all finished runs, or read their scores if played before."""
    by_name = {task.env: task for task in tasks}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job in jobs:
        if job.is_finished:
            tell(f"playing the final policy of {job.name}")
            task = by_name[job.config.env.name]
            key = (task.env, job.config.run.agent)
            found.setdefault(key, []).append(final_policy_score(job.folder, task.num_episodes))
    return [
        DeskScore(
            task=by_name[env],
            system=agent,
            seed_scores=tuple(float(np.mean(run["returns"])) for run in runs),
            frames=min(run["frames"] for run in runs),
            hours=float(np.mean([run["seconds"] for run in runs])) / 3600,
        )
        for (env, agent), runs in found.items()
    ]


def final_policy_score(folder: Path, num_episodes: int) -> dict[str, Any]:
    """Return frames, seconds and returns of the final policy, and keep them in the folder."""
    run, file = TrainedRun.load(folder), folder / SCORE_FILE
    frames = run.counters["frames"]
    kept = _kept_score(file)
    if kept.get("frames") == frames and len(kept["returns"]) == num_episodes:
        return kept
    last = (folder / "metrics.jsonl").read_text().splitlines()[-1]
    found = {
        "frames": frames,
        "seconds": json.loads(last)["seconds"],
        "arm": run.best_arm,
        "epsilon": EPSILON,
        "returns": episode_returns(run, run.best_arm, EPSILON, num_episodes).tolist(),
    }
    write_atomic(file, json.dumps(found).encode())
    return found


def _kept_score(file: Path) -> dict[str, Any]:
    """Return the score that `final_policy_score` kept; empty if it is missing or damaged."""
    try:
        kept = json.loads(file.read_text())
        np.asarray(kept["returns"], dtype=float).mean()
        return {**kept, "seconds": float(kept["seconds"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def read_baselines(file: Path, tasks: tuple[DeskTask, ...]) -> list[DeskScore]:
    """Return the scores that trials/sb3_baselines.py wrote; empty without the file."""
    if not file.exists():
        return []
    by_name = {task.env: task for task in tasks}
    try:
        return [
            DeskScore(
                task=by_name[row["env"]],
                system=row["system"],
                seed_scores=tuple(row["seed_scores"]),
                frames=row["steps"],
                hours=row["seconds"] / 3600,
            )
            for row in json.loads(file.read_text())
            if row["env"] in by_name
        ]
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            f"{file} is damaged: make it again with trials/sb3_baselines.py"
        ) from None


def cell(score: DeskScore | None) -> str:
    """Return a score as text, with its standard error if there are several seeds."""
    if score is None:
        return "-"
    error = "" if np.isnan(score.error) else f" ± {score.error:,.3g}"
    return f"{score.score:,.4g}{error}"


def write_desk(
    out: Path,
    tasks: tuple[DeskTask, ...],
    agents: tuple[str, ...],
    scores: list[DeskScore],
) -> None:
    """Write desk.md, desk.csv and the figure."""
    systems = tuple(dict.fromkeys((*agents, *(score.system for score in scores))))
    by_key = {(score.task.env, score.system): score for score in scores}
    head = ["task", "steps (Atari: frames)", "target", *systems, "elsewhere"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for task in tasks:
        cells = []
        for system in systems:
            score = by_key.get((task.env, system))
            mark = "" if score is None or not score.is_met else " **met**"
            cells.append(cell(score) + mark)
        row = [task.env, f"{task.frames:,}", f"{task.target:,.4g}", *cells, task.elsewhere or "-"]
        lines.append(f"| {' | '.join(row)} |")
    note = (
        "Mean return of the final policy over 100 episodes (Atari 20), ± standard error over "
        "seeds. Agents have the default settings of their task: no option but --env and --frames."
    )
    write_atomic(
        out / "desk.md", ("\n".join(["# Desk suite", "", note, "", *lines]) + "\n").encode()
    )
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(
        ["task", "system", "frames", "target", "score", "error", "seeds", "hours", "met"]
    )
    for s in scores:
        numbers = [f"{value:.6g}" for value in (s.task.target, s.score, s.error)]
        hours = f"{s.hours:.3g}"
        writer.writerow(
            (s.task.env, s.system, s.frames, *numbers, len(s.seed_scores), hours, s.is_met)
        )
    write_atomic(out / "desk.csv", table.getvalue().encode())
    if scores:
        draw_desk(scores, systems, out)


def draw_desk(scores: list[DeskScore], systems: tuple[str, ...], out: Path) -> None:
    """Draw every system on every task, on a scale from random play to the target."""
    from agent57.reports.figures import target_bars

    shares: dict[str, dict[str, float]] = {system: {} for system in systems}
    for score in scores:
        shares[score.system][score.task.env] = score.share
    target_bars(
        shares,
        note="0 is random play, 1 is the target of the task; bars end at -0.25 and 1.5",
        files=[out / "desk.png", out / "desk.svg"],
    )
