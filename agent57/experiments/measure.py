"""Measures the outcome of a trained run: reads its records and plays its final policy."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from agent57.config import EnvConfig
from agent57.envs.games import ATARI_GAMES
from agent57.envs.make import make_env
from agent57.envs.spec import EpisodeRecord
from agent57.experiments.experiment import Budget, Experiment, Outcome
from agent57.storage.history import RunHistory
from agent57.trained.evaluation import Film, play_episodes
from agent57.trained.trained_run import TrainedRun
from agent57.video.overlay import Overlay

NUM_BINS = 50  # bins that training is divided into
MAX_LANES = 64
TRIAL_SEED = 1


def measure(
    experiment: Experiment, budget: Budget, label: str, seed: int, folder: Path, commit: str
) -> Outcome:
    """Read a finished run and play its final policy, for figures and criteria."""
    run, history = TrainedRun.load(folder), RunHistory.read(folder)
    evaluated = [row for row in history.episodes if row["phase"] == "evaluate"]
    recent = [row["return"] for row in evaluated[-experiment.recent_episodes :]]
    scored = range(run.config.family.arms) if experiment.scores_arms else (run.best_arm,)
    finals = {arm: play(run, arm, experiment.epsilon, budget.num_episodes) for arm in scored}
    by_arm = [final.returns for final in finals.values()] if experiment.scores_arms else []
    frames = run.counters["frames"]
    edges = np.linspace(0, frames, NUM_BINS + 1)[1:]
    plays, arm_returns = arm_bins(history, edges)
    at = [row["frames"] for row in evaluated]
    rooms = _rooms_visited(finals[run.best_arm].records, run.config.env)
    return Outcome(
        label=label,
        agent=experiment.contestants[label].agent,
        seed=seed,
        score=float(finals[run.best_arm].returns.mean()),
        evaluator=float(np.mean(recent)) if recent else float("nan"),
        best_arm=run.best_arm,
        arms=tuple(history.arms),
        arm_scores=tuple(float(played.mean()) for played in by_arm),
        arm_errors=tuple(float(played.std() / len(played) ** 0.5) for played in by_arm),
        frames=frames,
        seconds=history.latest.get("seconds", float("nan")),
        commit=commit,
        bin_frames=edges,
        curve=binned_mean(at, [row["return"] for row in evaluated], edges),
        plays=plays,
        arm_returns=arm_returns,
        best_arms=latest_at(history.column("evaluator/best_arm"), edges),
        folder=folder,
        rewarded=binned_mean(at, [float(row["return"] > 0) for row in evaluated], edges),
        novelty=binned_mean(*_columns(history.column("curiosity/novelty")), edges),
        rooms=rooms,
    )


@dataclass(frozen=True, kw_only=True)
class FinalEpisodes:
    """Whole episodes with one arm of a trained run."""

    returns: np.ndarray  # [num_episodes] extrinsic
    records: list[EpisodeRecord]  # to replay the episodes; empty if the task keeps no records


def play(run: TrainedRun, arm: int, epsilon: float, num_episodes: int) -> FinalEpisodes:
    """Play episodes with one arm of a trained run; lane k begins with episode k."""
    torch.set_num_threads(1)
    env = make_env(run.config.env, min(num_episodes, MAX_LANES))
    records: dict[int, EpisodeRecord] = {}

    def keep(number: int, lane: int) -> None:
        record = env.running_episode(lane)
        if record is not None:
            records[number] = record

    try:
        player = run.make_player(env, epsilon, TRIAL_SEED, torch.device("cpu"))
        episodes = play_episodes(player, env, arm, num_episodes, on_end=keep)
    finally:
        env.close()
    returns = np.array([episode.episode_return for episode in episodes])
    return FinalEpisodes(returns=returns, records=[records[n] for n in sorted(records)])


def episode_returns(run: TrainedRun, arm: int, epsilon: float, num_episodes: int) -> np.ndarray:
    """Return the extrinsic returns [num_episodes] of whole episodes with one arm of a run."""
    return play(run, arm, epsilon, num_episodes).returns


def film_best(run: TrainedRun, epsilon: float, num_episodes: int, file: Path) -> float:
    """Film the best of the final policy's first episodes, with the overlay; return its return."""
    num_episodes = min(num_episodes, MAX_LANES)  # one episode per lane
    best = int(play(run, run.best_arm, epsilon, num_episodes).returns.argmax())
    beta, gamma = run.beta_gamma(run.best_arm)
    title = f"{run.config.run.agent} on {run.config.env.name}"
    caption = f"arm {run.best_arm}   beta {beta:.4g}   gamma {gamma:.6g}"
    film, env = Film(file, Overlay(title, caption)), make_env(run.config.env, 1)
    try:
        player = run.make_player(env, epsilon, TRIAL_SEED, torch.device("cpu"), first_lane=best)
        (episode,) = play_episodes(player, env, run.best_arm, 1, film=film)
    finally:
        env.close()
        film.close()
    return episode.episode_return


def _rooms_visited(records: list[EpisodeRecord], config: EnvConfig) -> tuple[frozenset[int], ...]:
    """Return the rooms that each episode visited; empty if the game's rooms are not known."""
    if config.name not in ATARI_GAMES:
        return ()
    from agent57.envs.atari_memory import rooms_visited  # needs the emulator, an extra

    return tuple(frozenset(seen) for seen in rooms_visited(records, config) or ())


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [frames for frames, _ in points], [value for _, value in points]


def arm_bins(history: RunHistory, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the actors' plays of each arm in each bin [bins, arms], and their mean returns."""
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
    """Return the mean of the values in each bin; nan for a bin without values."""
    counts, totals = np.zeros(len(edges)), np.zeros(len(edges))
    for at, value in zip(frames, values, strict=True):
        counts[_bin(at, edges)] += 1
        totals[_bin(at, edges)] += value
    with np.errstate(invalid="ignore"):
        return totals / counts


def latest_at(points: list[tuple[float, float]], edges: np.ndarray) -> np.ndarray:
    """Return the last value written by the end of each bin; nan before the first value."""
    values = np.full(len(edges), np.nan)
    for frames, value in points:
        values[_bin(frames, edges) :] = value
    return values


def _bin(frames: float, edges: np.ndarray) -> int:
    """Return the bin that contains `frames`; a bin includes its end."""
    return min(int(np.searchsorted(edges, frames)), len(edges) - 1)
