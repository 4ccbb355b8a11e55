"""Ablation of MEME, Agent57's successor: how many frames each of its parts saves.

The contestants are agent57, meme, and meme without one part, on tasks of the desk suite. The
measure is the frames until the evaluator has gone half, and nine tenths, of the way from random
play to the target.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from agent57.config import Config
from agent57.experiments.criteria import at_most, frames_to
from agent57.experiments.desk import chosen_tasks
from agent57.experiments.drawing import note
from agent57.experiments.experiment import (
    Budget,
    Contestant,
    Experiment,
    Results,
    unchanged,
)
from agent57.presets import Change, make_config

TASKS = chosen_tasks("CartPole-v1,MiniGrid-DoorKey-8x8-v0,MiniGrid-MultiRoom-N4-S5-v0,pong")
LEVELS = (0.5, 0.9)  # on a scale where random play is 0 and the target is 1


def no_trust_region(config: Config) -> Config:
    """Bootstrap from the target network."""
    return replace(config, learner=replace(config.learner, trust_region=0.0))


def no_normalised_errors(config: Config) -> Config:
    """Scale TD errors as agent57 does."""
    learner = replace(config.learner, td_scale="priority", td_scale_batch=False)
    return replace(config, learner=learner)


def no_soft_watkins(config: Config) -> Config:
    """Learn from the returns of agent57."""
    theirs = make_config("agent57", config.run.scale, config.run.kind).learner
    learner = replace(config.learner, loss=theirs.loss, trace_decay=theirs.trace_decay)
    return replace(config, learner=learner)


def no_cross_mixture(config: Config) -> Config:
    """Learn each arm from its own windows."""
    return replace(config, learner=replace(config.learner, cross_mixture=1.0))


def no_shared_torso(config: Config) -> Config:
    """Give Q^e and Q^i separate networks."""
    return replace(
        config,
        network=replace(config.network, values="separate"),
        learner=replace(config.learner, value_loss="each"),
    )


def switch_distillation(config: Config) -> Config:
    """Replace a distilled policy by acting on the values, and the other way round."""
    if config.learner.policy == "distilled":
        return replace(config, learner=replace(config.learner, policy="values"))
    return replace(config, learner=replace(config.learner, policy="distilled"))


VARIANTS: dict[str, tuple[str, Change]] = {
    "meme": ("meme", unchanged),
    "agent57": ("agent57", unchanged),
    "meme without its trust region": ("meme", no_trust_region),
    "meme without normalised errors": ("meme", no_normalised_errors),
    "meme without soft Watkins": ("meme", no_soft_watkins),
    "meme without cross-mixture": ("meme", no_cross_mixture),
    "meme without a shared torso": ("meme", no_shared_torso),
    "meme with distillation switched": ("meme", switch_distillation),
}


def label(variant: str, env: str) -> str:
    """Return the name of a contestant."""
    return f"{variant}, {env}"


def frames_until(results: Results, variant: str, share: float) -> list[tuple[float, float]]:
    """Return mean frames and standard error over seeds for each task; nan error with one seed."""
    found = []
    for task in TASKS:
        level = task.random + share * (task.target - task.random)
        frames = [frames_to(outcome, level) for outcome in results[label(variant, task.env)]]
        count = len(frames)
        error = float(np.std(frames, ddof=1) / count**0.5) if count > 1 else float("nan")
        found.append((float(np.mean(frames)), error))
    return found


def share_of_frames(results: Results) -> float:
    """Return meme's frames to half of the target over agent57's: geometric mean over tasks."""
    ours, theirs = (frames_until(results, variant, 0.5) for variant in ("meme", "agent57"))
    ratios = [mine / other for (mine, _), (other, _) in zip(ours, theirs, strict=True)]
    return float(np.exp(np.mean(np.log(ratios))))


def seconds_per_frame(results: Results) -> float:
    """Return meme's seconds per frame over agent57's: geometric mean over tasks."""
    speeds = [
        [
            np.mean([o.seconds / o.frames for o in results[label(variant, task.env)]])
            for task in TASKS
        ]
        for variant in ("meme", "agent57")
    ]
    return float(np.exp(np.mean(np.log(speeds[0]) - np.log(speeds[1]))))


def draw(experiment: Experiment, budget: Budget, results: Results, out: Path) -> list[str]:
    """Draw `frames`: the frames each variant needs, a panel per level; write the same table."""
    from agent57.reports.figures import relative_bars

    lines = ["variant," + ",".join(f"{t.env} {s:.0%},error" for s in LEVELS for t in TASKS)]
    for variant in VARIANTS:
        cells = [
            cell for s in LEVELS for pair in frames_until(results, variant, s) for cell in pair
        ]
        lines.append(variant + "," + ",".join("" if c != c else f"{c:.6g}" for c in cells))
    (out / "frames.csv").write_text("\n".join(lines) + "\n")
    relative_bars(
        {
            f"frames until {share:.0%} of the target, agent57 is 1": {
                variant: _relative(results, variant, share) for variant in VARIANTS
            }
            for share in LEVELS
        },
        groups=[task.env for task in TASKS],
        note=note(experiment, budget),
        files=[out / "frames.png", out / "frames.svg"],
    )
    return ["frames"]


def _relative(results: Results, variant: str, share: float) -> list[tuple[float, float]]:
    """Return frames and their standard error for each task, divided by agent57's frames."""
    theirs = frames_until(results, "agent57", share)
    ours = frames_until(results, variant, share)
    return [
        (mean / other, error / other)
        for (mean, error), (other, _) in zip(ours, theirs, strict=True)
    ]


def _budget(fraction: float, num_seeds: int, num_episodes: int) -> Budget:
    frames = {task.env: round(fraction * task.frames) for task in TASKS}
    return Budget(
        frames=max(frames.values()),
        task_frames=frames,
        num_seeds=num_seeds,
        num_episodes=num_episodes,
    )


MEME = Experiment(
    name="meme",
    claim="the parts of MEME reach the same return in fewer frames",
    env=TASKS[0].env,
    contestants={
        label(variant, task.env): Contestant(agent=agent, change=change, env=task.env)
        for task in TASKS
        for variant, (agent, change) in VARIANTS.items()
    },
    budgets={"minutes": _budget(0.2, 1, 10), "full": _budget(1.0, 3, 20)},
    criteria=(
        at_most(
            "meme over agent57: frames until half of the target, geometric mean over tasks,",
            share_of_frames,
            1 / 3,
        ),
        at_most(
            "meme over agent57: seconds per frame, geometric mean over tasks,",
            seconds_per_frame,
            1.0,
        ),
    ),
    draw=draw,
    lines={},
)
