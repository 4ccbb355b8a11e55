"""From a trained run to its outcome: its records are read and its final policy plays."""

from pathlib import Path

import numpy as np
import torch

from agent57.envs.make import make_env
from agent57.experiments.experiment import Budget, Experiment, Outcome
from agent57.storage.history import RunHistory
from agent57.trained.evaluation import play_episodes
from agent57.trained.trained_run import TrainedRun

NUM_BINS = 50  # of training
RECENT_EPISODES = 20  # of evaluation, the last of training
MAX_LANES = 64
TRIAL_SEED = 1


def measure(
    experiment: Experiment, budget: Budget, label: str, seed: int, folder: Path, commit: str
) -> Outcome:
    """Everything the figures and criteria need of one finished run."""
    run, history = TrainedRun.load(folder), RunHistory.read(folder)
    evaluated = [row for row in history.episodes if row["phase"] == "evaluate"]
    recent = [row["return"] for row in evaluated[-RECENT_EPISODES:]]
    scored = range(run.config.family.arms) if experiment.scores_arms else (run.best_arm,)
    returns = {
        arm: episode_returns(run, arm, experiment.epsilon, budget.num_episodes) for arm in scored
    }
    by_arm = list(returns.values()) if experiment.scores_arms else []
    frames = run.counters["frames"]
    edges = np.linspace(0, frames, NUM_BINS + 1)[1:]
    plays, arm_returns = arm_bins(history, edges)
    return Outcome(
        label=label,
        agent=experiment.contestants[label].agent,
        seed=seed,
        score=float(returns[run.best_arm].mean()),
        evaluator=float(np.mean(recent)) if recent else float("nan"),
        best_arm=run.best_arm,
        arms=tuple(history.arms),
        arm_scores=tuple(float(played.mean()) for played in by_arm),
        arm_errors=tuple(float(played.std() / len(played) ** 0.5) for played in by_arm),
        frames=frames,
        seconds=history.latest.get("seconds", float("nan")),
        commit=commit,
        bin_frames=edges,
        curve=binned_mean(
            [row["frames"] for row in evaluated], [row["return"] for row in evaluated], edges
        ),
        plays=plays,
        arm_returns=arm_returns,
        best_arms=latest_at(history.column("evaluator/best_arm"), edges),
        folder=folder,
    )


def episode_returns(run: TrainedRun, arm: int, epsilon: float, num_episodes: int) -> np.ndarray:
    """[num_episodes] extrinsic returns of whole episodes with one arm of a trained run."""
    torch.set_num_threads(1)
    env = make_env(run.config.env, min(num_episodes, MAX_LANES))
    try:
        player = run.make_player(env, epsilon, TRIAL_SEED, torch.device("cpu"))
        episodes = play_episodes(player, env, arm, num_episodes)
    finally:
        env.close()
    return np.array([episode.episode_return for episode in episodes])


def arm_bins(history: RunHistory, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How often the actors played each arm in each bin, and their mean returns."""
    shape = (len(edges), len(history.arms))
    plays, totals = np.zeros(shape), np.zeros(shape)
    for row in history.episodes:
        if row["source"] == "actor":
            place = (_bin(row["frames"], edges), row["arm"])
            plays[place] += 1
            totals[place] += row["return"]
    with np.errstate(invalid="ignore"):
        return plays, totals / plays


def binned_mean(frames: list[float], values: list[float], edges: np.ndarray) -> np.ndarray:
    """Mean of the values in each bin; nan where there are none."""
    counts, totals = np.zeros(len(edges)), np.zeros(len(edges))
    for at, value in zip(frames, values, strict=True):
        counts[_bin(at, edges)] += 1
        totals[_bin(at, edges)] += value
    with np.errstate(invalid="ignore"):
        return totals / counts


def latest_at(points: list[tuple[float, float]], edges: np.ndarray) -> np.ndarray:
    """The last value written by the end of each bin; nan before the first."""
    values = np.full(len(edges), np.nan)
    for frames, value in points:
        values[_bin(frames, edges) :] = value
    return values


def _bin(frames: float, edges: np.ndarray) -> int:
    """The bin that ends at `frames` or next after it."""
    return min(int(np.searchsorted(edges, frames)), len(edges) - 1)
