"""Plays whole episodes with a trained run, in several lanes at once, and summarises them."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent57.config import MAX_COUNT, ConfigError, require
from agent57.envs.make import make_env
from agent57.envs.spec import EnvironmentFault, VectorEnv
from agent57.glances import distilled_policy
from agent57.player import Player
from agent57.runtime.run import RunFailed, choose_device
from agent57.scores.published import human_normalised, suite_games
from agent57.storage.files import make_own_folder, write_atomic
from agent57.terminal.evaluation_view import EvaluationView
from agent57.terminal.progress import ProgressView
from agent57.threads import use_threads
from agent57.trained.policy_file import read_trained
from agent57.trained.trained_run import TrainedRun
from agent57.types import Episode, Played
from agent57.video.film import EpisodeCamera, check_video
from agent57.video.overlay import Overlay

MAX_LANES = 16
FPS_ATARI = 15  # real time: 60 Hz with an action every four frames
FPS = 10
VIDEO_FOLDER = "videos"  # in the run folder, where the report looks for videos


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Settings of an evaluation: how many episodes, with which arm, and what to write."""

    episodes: int = 10
    arm: int | None = None  # None: the surest arm of the evaluator's bandit
    epsilon: float | None = None  # None: the evaluator's epsilon
    seed: int = 0
    video: Path | None = None
    overlay: bool = True
    device: str = "auto"

    def __post_init__(self) -> None:
        require(self.episodes > 0, f"--episodes must be positive, got {self.episodes}")
        require(self.episodes < MAX_COUNT, "--episodes must be below 10^15")
        require(self.seed >= 0, f"--seed must not be negative, got {self.seed}")
        epsilon = self.epsilon
        is_probability = epsilon is None or 0 <= epsilon <= 1
        require(is_probability, f"--epsilon must lie in [0, 1], got {epsilon}")


class Film:
    """Films the first episode of lane 0."""

    def __init__(self, file: Path, overlay: Overlay | None) -> None:
        self._file = file
        self._overlay = overlay
        self._camera: EpisodeCamera | None = None

    def begin(self, env: VectorEnv) -> None:
        """Film the first picture of the episode."""
        if self._overlay is not None:
            self._overlay.action_names = env.spec.action_names
        fps = FPS_ATARI if env.spec.frames_per_step > 1 else FPS
        self._camera = EpisodeCamera(self._file, self._overlay, _picture(env), fps)

    def see(self, env: VectorEnv, player: Player, played: Played) -> None:
        """Film one more step."""
        assert self._camera is not None, "begin comes first"
        factors = {} if player.curiosity is None else player.curiosity.last
        novelty = float(factors["novelty"][0]) if factors else None
        policy = distilled_policy(player, played)
        self._camera.see(played, novelty, _picture(env), None if policy is None else policy[0])

    def close(self) -> str:
        """Finish the file and describe it."""
        if self._camera is None:
            return "nothing"
        self._camera.close()
        return self._camera.description


def _picture(env: VectorEnv) -> np.ndarray:
    try:
        return env.render(0)
    except ValueError as error:
        raise ConfigError(f"--video cannot be made: {error}") from None


def play_episodes(
    player: Player,
    env: VectorEnv,
    arm: int,
    num_episodes: int,
    progress: ProgressView | None = None,
    film: Film | None = None,
    on_end: Callable[[int, int], None] | None = None,
) -> list[Episode]:
    """Play the first `num_episodes` episodes that begin, and return them in that order.

    on_end: called with the number and the lane of an episode that has just ended

    The episodes that end first would be a biased sample, because they are short. Lanes without a
    further episode to play go on, because all lanes step together.
    """
    num_begun = 0
    number = np.full(env.num_lanes, -1)  # of the episode in each lane
    needs_begin = np.ones(env.num_lanes, dtype=bool)
    finished: dict[int, Episode] = {}
    while len(finished) < num_episodes:
        if needs_begin.any():
            player.begin(needs_begin, np.full(env.num_lanes, arm))
            for lane in np.flatnonzero(needs_begin):
                number[lane] = num_begun
                num_begun += 1
            if film is not None and needs_begin[0] and number[0] == 0:
                film.begin(env)
        played = player.step()
        if film is not None and number[0] == 0:
            film.see(env, player, played)
        needs_begin = played.terminated | played.truncated
        for episode in player.ended_episodes(needs_begin, "evaluator", 0):
            place = episode.lane - player.first_lane
            if number[place] < num_episodes:
                finished[int(number[place])] = dataclasses.replace(episode, phase="evaluate")
                if on_end is not None:
                    on_end(int(number[place]), place)
        if progress is not None:
            progress.show(len(finished))
    return [finished[i] for i in range(num_episodes)]


def evaluate(path: Path, trial: Trial, view: EvaluationView) -> dict[str, Any]:
    """Play episodes, write the video if asked to, and return the numbers."""
    if trial.video is not None:
        check_video(trial.video)
    device = choose_device(trial.device)
    run = read_trained(path)
    for text in run.damaged:
        view.say(f"{text}: using the checkpoint before it")
    arm = run.choose_arm(trial.arm)
    use_threads(run.config.run.threads)
    env = make_env(run.config.env, min(trial.episodes, MAX_LANES))
    epsilon = run.config.evaluator.epsilon if trial.epsilon is None else trial.epsilon
    player = run.make_player(env, epsilon, trial.seed, device)
    film = _film(run, arm, trial)
    try:
        with view.progress(path, trial.episodes) as progress:
            episodes = play_episodes(player, env, arm, trial.episodes, progress, film)
    except (EnvironmentFault, FloatingPointError) as error:
        raise RunFailed(str(error)) from error
    finally:
        env.close()
        filmed = film.close() if film is not None else ""
    result = summary(run, arm, epsilon, trial.seed, episodes)
    view.show(result)
    if trial.video is not None:
        if path.is_dir():
            _keep_in_run(trial.video, path, view)
        view.say(f"video: {trial.video} ({filmed})")
    return result


def _film(run: TrainedRun, arm: int, trial: Trial) -> Film | None:
    if trial.video is None:
        return None
    beta, gamma = run.beta_gamma(arm)
    title = f"{run.config.run.agent} on {run.config.env.name}"
    caption = f"arm {arm}   beta {beta:.4g}   gamma {gamma:.6g}"
    return Film(trial.video, Overlay(title, caption) if trial.overlay else None)


def _keep_in_run(video: Path, path: Path, view: EvaluationView) -> None:
    """Copy the video to the run folder for the report, unless the folder cannot be written."""
    if path.resolve() in video.resolve().parents:
        return
    folder = path / VIDEO_FOLDER
    try:
        make_own_folder(folder)
        write_atomic(folder / video.name, video.read_bytes())
    except OSError as error:
        view.say(f"no copy of the video for the report: {folder}: {error.strerror}")


def summary(
    run: TrainedRun, arm: int, epsilon: float, seed: int, episodes: list[Episode]
) -> dict[str, Any]:
    """Summarise the episodes in plain values, ready for JSON."""
    returns = np.array([episode.episode_return for episode in episodes])
    beta, gamma = run.beta_gamma(arm)
    result: dict[str, Any] = {
        "run": str(run.path),
        "agent": run.config.run.agent,
        "env": run.config.env.name,
        "trained_frames": run.counters["frames"],
        "arm": arm,
        "beta": beta,
        "gamma": gamma,
        "is_best_arm": arm == run.best_arm,
        "epsilon": epsilon,
        "seed": seed,
        "num_episodes": len(episodes),
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "length_mean": float(np.mean([episode.length for episode in episodes])),
        "returns": returns.tolist(),
        "lengths": [episode.length for episode in episodes],
    }
    if run.config.env.name in suite_games("atari57"):
        result["hns"] = human_normalised(result["return_mean"], run.config.env.name, "agent57")
    return result
