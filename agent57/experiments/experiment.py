"""What an experiment is: contestants on one task, what each may spend, and what must come out.

Descriptions only: `tasks.py` and `random_coin.py` hold the experiments, `runner.py` performs them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One system: a preset, and what is changed in it."""

    agent: str
    options: tuple[str, ...] = ()  # of `agent57 train`; they win over the experiment's settings


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much to spend."""

    frames: int  # of each run
    num_seeds: int
    num_episodes: int  # played in the end with each policy that is scored


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One trained run, read and played. Training is cut into bins of equal length."""

    label: str
    agent: str
    seed: int
    score: float  # mean return of the final policy: the arm its evaluator found best
    evaluator: float  # mean return of the last evaluation episodes of training
    best_arm: int  # of the evaluator
    arms: tuple[tuple[float, float], ...]  # beta and gamma of each
    arm_scores: tuple[float, ...]  # mean return of each arm in the end; empty if not asked for
    arm_errors: tuple[float, ...]  # standard error of each of them, over its episodes
    frames: int
    seconds: float
    commit: str
    bin_frames: np.ndarray  # [bins] where each ends
    curve: np.ndarray  # [bins] mean return of its evaluation episodes; nan if there were none
    plays: np.ndarray  # [bins, arms] episodes of the actors
    arm_returns: np.ndarray  # [bins, arms] their mean return; nan if there were none
    best_arms: np.ndarray  # [bins] the evaluator's best arm at the end of each; nan if unknown
    folder: Path

    @property
    def beta_gamma(self) -> tuple[float, float]:
        """Of the final policy."""
        return self.arms[self.best_arm]


Results = dict[str, list[Outcome]]  # label of a contestant -> an outcome per seed


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A number that must come out, and how it is measured."""

    text: str
    measure: Callable[[Results], float]
    target: float
    is_at_least: bool = True  # otherwise at most

    @property
    def goal(self) -> str:
        """In words, with its target."""
        return f"{self.text} {'at least' if self.is_at_least else 'at most'} {self.target:,.4g}"

    def judge(self, results: Results) -> "Verdict":
        """Whether it came out."""
        value = self.measure(results)
        is_met = value >= self.target if self.is_at_least else value <= self.target
        return Verdict(goal=self.goal, value=value, is_met=is_met)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A criterion, judged."""

    goal: str
    value: float
    is_met: bool

    @property
    def word(self) -> str:
        """pass, or not."""
        return "pass" if self.is_met else "FALLS SHORT"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One claim of the paper on one task."""

    name: str
    claim: str
    env: str
    settings: tuple[str, ...]  # options of `agent57 train` for all contestants
    contestants: dict[str, Contestant]  # by label; the first is the one the claim is about
    budgets: dict[str, Budget]
    criteria: tuple[Criterion, ...]
    draw: Callable[["Experiment", Budget, Results, Path], list[str]]  # the figures' names
    lines: dict[str, float]  # references in the figure: what random or perfect play returns
    epsilon: float = 0.01  # of the final policy as it is scored
    scores_arms: bool = False  # whether every arm is played in the end

    @property
    def subject(self) -> str:
        """The label of the contestant the claim is about."""
        return next(iter(self.contestants))

    def options(self, label: str, seed: int) -> tuple[str, ...]:
        """Of `agent57 train`, but for --frames and --out."""
        contestant = self.contestants[label]
        named = ("--agent", contestant.agent, "--env", self.env, "--seed", str(seed))
        return (*named, *self.settings, *contestant.options)
