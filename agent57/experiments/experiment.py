"""Classes that describe an experiment: contestants on a task, their budget, and criteria.

`catalogue.py` lists the experiments, and `runner.py` performs them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from agent57.config import Config
from agent57.defaults import default_config
from agent57.presets import Change


def unchanged(config: Config) -> Config:
    """Return the settings unchanged."""
    return config


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One contestant: the default settings of a preset, and the change that the claim is about."""

    agent: str
    change: Change = unchanged
    env: str | None = None  # the task, if contestants play different tasks


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Frames, seeds and episodes of an experiment."""

    frames: int  # per run
    num_seeds: int
    num_episodes: int  # played after training with each policy that is scored
    task_frames: Mapping[str, int] = field(default_factory=dict)  # per run, for some tasks

    def frames_of(self, env: str) -> int:
        """Return the frames of a run on a task."""
        return self.task_frames.get(env, self.frames)


def budgets(
    frames: tuple[int, int], num_seeds: int, num_episodes: tuple[int, int]
) -> dict[str, Budget]:
    """Return a budget for minutes, with one seed, and one for a full result.

    `frames` and `num_episodes` are of the budget for minutes first, `num_seeds` of the full one.
    """
    few, many = num_episodes
    return {
        "minutes": Budget(frames=frames[0], num_seeds=1, num_episodes=few),
        "full": Budget(frames=frames[1], num_seeds=num_seeds, num_episodes=many),
    }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The records and final scores of a run. Training is divided into bins of equal length."""

    label: str
    agent: str
    seed: int
    score: float  # mean return of the final policy, the surest arm
    evaluator: float  # mean return of the last evaluation episodes of training
    best_arm: int  # of the evaluator
    arms: tuple[tuple[float, float], ...]  # beta and gamma of each arm
    arm_scores: tuple[float, ...]  # final mean return of each arm; empty if not measured
    arm_errors: tuple[float, ...]  # standard error of each arm's score, over its episodes
    frames: int
    seconds: float
    commit: str
    bin_frames: np.ndarray  # [bins] frames at the end of each bin
    curve: np.ndarray  # [bins] mean return of evaluation episodes; nan without episodes
    plays: np.ndarray  # [bins, arms] episodes of the actors
    arm_returns: np.ndarray  # [bins, arms] mean return of these episodes; nan without episodes
    best_arms: np.ndarray  # [bins] the evaluator's best arm at the end of each bin; nan if unknown
    folder: Path
    rewarded: np.ndarray = field(default_factory=lambda: np.zeros(0))  # [bins] share of evaluation
    # episodes with a positive return; nan without episodes
    novelty: np.ndarray = field(default_factory=lambda: np.zeros(0))  # [bins] mean, of the actors
    rooms: tuple[frozenset[int], ...] = ()  # visited by each final episode, if rooms are known

    @property
    def beta_gamma(self) -> tuple[float, float]:
        """Beta and gamma of the final policy."""
        return self.arms[self.best_arm]


Results = dict[str, list[Outcome]]  # label of a contestant -> an outcome per seed


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A number that the experiment must reach, and how it is measured."""

    text: str
    measure: Callable[[Results], float]
    target: float
    is_at_least: bool = True  # otherwise at most

    @property
    def goal(self) -> str:
        """The criterion in words, with its target."""
        return f"{self.text} {'at least' if self.is_at_least else 'at most'} {self.target:,.4g}"

    def judge(self, results: Results) -> "Verdict":
        """Compare the measured number with the target."""
        value = self.measure(results)
        is_met = value >= self.target if self.is_at_least else value <= self.target
        return Verdict(goal=self.goal, value=value, is_met=is_met)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a criterion."""

    goal: str
    value: float
    is_met: bool

    @property
    def word(self) -> str:
        """The verdict as a word."""
        return "pass" if self.is_met else "FALLS SHORT"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One claim of the paper on one task."""

    name: str
    claim: str
    env: str
    contestants: dict[str, Contestant]  # by label; the claim is about the first contestant
    budgets: dict[str, Budget]
    criteria: tuple[Criterion, ...]
    draw: Callable[["Experiment", Budget, Results, Path], list[str]]  # returns figure names
    lines: dict[str, float]  # reference lines in the figure, such as the return of random play
    scale: str = "laptop"
    change: Change = unchanged  # change of the default settings for all contestants
    epsilon: float = 0.01  # probability of a random action while the final policy is scored
    recent_episodes: int = 20  # evaluation episodes whose mean is the evaluator's score
    films: bool = False  # whether the best final episode of each contestant is filmed
    scores_arms: bool = False  # whether every arm is scored after training

    @property
    def subject(self) -> str:
        """The label of the contestant that the claim is about."""
        return next(iter(self.contestants))

    def task(self, label: str) -> str:
        """Return the task of a contestant."""
        return self.contestants[label].env or self.env

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of all contestants, each once."""
        return tuple(dict.fromkeys(self.task(label) for label in self.contestants))

    def default(self, label: str) -> Config:
        """Return the default settings of a contestant's preset on the task."""
        return default_config(self.task(label), self.contestants[label].agent, self.scale)

    def config(self, label: str, seed: int, frames: int) -> Config:
        """Return the settings of one run."""
        config = self.contestants[label].change(self.change(self.default(label)))
        return replace(config, run=replace(config.run, seed=seed, frames=frames))
