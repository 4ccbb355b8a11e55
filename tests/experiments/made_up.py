"""Made-up outcomes and experiments, which need no training."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agent57.config import Config, SequenceConfig
from agent57.experiments.criteria import at_least, at_most, final_score
from agent57.experiments.drawing import draw_curves_and_arms
from agent57.experiments.experiment import Budget, Contestant, Experiment, Outcome

TWO_ARMS = ((0.0, 0.99), (0.3, 0.9))


def tiny(config: Config) -> Config:
    """Return settings with networks, lanes and windows that train in a second."""
    return replace(
        config,
        family=replace(config.family, arms=2),
        network=replace(config.network, state_size=16, feature_size=16, head_size=16),
        sequence=SequenceConfig(trace_length=8, replay_period=4),
        replay=replace(config.replay, min_windows=4),
        learner=replace(config.learner, batch_size=4),
        actor=replace(config.actor, lanes=4),
        run=replace(config.run, log_frames=200),
    )


def five_windows(config: Config) -> Config:
    return replace(config, learner=replace(config.learner, batch_size=5))


def manifest(frames: int) -> dict[str, Any]:
    """Return the manifest of a checkpoint after some frames; its state is never read."""
    state = {"file": "000000000001.state", "bytes": 0, "sha256": ""}
    return {"counters": {"frames": frames}, "state": state, "segments": []}


def outcome(label: str = "ours", **changes: Any) -> Outcome:
    """Return the outcome of a run with four bins and two arms."""
    made = Outcome(
        label=label,
        agent="agent57",
        seed=0,
        score=0.9,
        evaluator=0.8,
        best_arm=0,
        arms=TWO_ARMS,
        arm_scores=(0.9, 0.3),
        arm_errors=(0.01, 0.02),
        frames=400,
        seconds=60.0,
        commit="abc",
        bin_frames=np.array([100.0, 200, 300, 400]),
        curve=np.array([np.nan, 0.2, np.nan, 0.8]),
        plays=np.array([[1.0, 1], [1, 3], [0, 0], [6, 2]]),
        arm_returns=np.array([[0.0, 0.0], [0.0, 0.5], [np.nan, np.nan], [0.8, 0.4]]),
        best_arms=np.array([np.nan, 1, 1, 0]),
        folder=Path("nowhere"),
    )
    return replace(made, **changes)


def experiment(**changes: Any) -> Experiment:
    """Return an experiment with two contestants on a toy."""
    made = Experiment(
        name="made-up",
        claim="ours is better",
        env="toy/bandit",
        scale="tiny",
        change=tiny,
        contestants={
            "ours": Contestant(agent="agent57"),
            "theirs, joint": Contestant(agent="ngu", change=five_windows),
        },
        budgets={"minutes": Budget(frames=300, num_seeds=1, num_episodes=4)},
        criteria=(
            at_least("ours: mean return", final_score("ours"), 0.0),
            at_most("theirs: mean return", final_score("theirs, joint"), -1.0),
        ),
        draw=draw_curves_and_arms,
        lines={"perfect": 1.0},
        scores_arms=True,
    )
    return replace(made, **changes)
