"""Real training runs: tasks with a known best return are solved, not only improved.

They train the whole agent at `tiny` scale as a user would, on one core. `make learn` runs all
seeds.
"""

import numpy as np
import pytest
import torch

from agent57.config import Config
from agent57.envs.toy import TOYS
from agent57.presets import make_config
from agent57.runtime import inline
from agent57.runtime.parts import build
from agent57.types import Episode
from tests.small import CPU, Notes, Sitting, changed


def evaluated(config: Config) -> list[Episode]:
    """Train, and return the evaluator's greedy-arm episodes in the order they were played."""
    torch.set_num_threads(1)
    notes = Notes()
    inline.train(config, build(config, CPU), notes, Sitting())  # type: ignore[arg-type]
    return [e for e in notes.episodes if e.source == "evaluator" and e.phase == "evaluate"]


def tiny(agent: str, env: str, frames: int, seed: int = 0) -> Config:
    return changed(
        make_config(agent, "tiny"), env={"name": env}, run={"frames": frames, "seed": seed}
    )


def test_the_cue_is_remembered() -> None:
    # The best mean return is 0 without memory, and 1 with the recurrent state.
    episodes = evaluated(tiny("agent57", "toy/cue", 10_000))
    returns = [episode.episode_return for episode in episodes]
    assert abs(np.mean(returns[:10])) < 0.7  # it had to be learned
    assert np.mean(returns[-15:]) >= 0.95 * TOYS["toy/cue"]().optimal_return


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("agent", "env", "frames"),
    [
        ("agent57", "toy/chain", 16_000),
        ("agent57", "toy/cue", 16_000),
        ("agent57", "toy/bandit", 8_000),
        ("ngu-sep-nets", "toy/cue", 24_000),
        ("r2d2-retrace", "toy/cue", 24_000),
    ],
)
def test_toys_are_solved(agent: str, env: str, frames: int, seed: int) -> None:
    # As the paper scores: the best mean of a window of evaluation episodes during training.
    episodes = evaluated(tiny(agent, env, frames, seed))
    returns = np.array([episode.episode_return for episode in episodes])
    windows = np.convolve(returns, np.full(20, 1 / 20), "valid")
    assert windows.max() >= 0.9 * TOYS[env]().optimal_return
