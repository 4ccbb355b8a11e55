from pathlib import Path

import numpy as np
import torch

import agent57
from agent57.experiments.measure import episode_returns
from agent57.experiments.weights import export_weights
from agent57.trained.trained_run import TrainedRun
from tests.trained_run import call, trained_run


def test_weights_play_without_the_run_they_came_from(tmp_path: Path) -> None:
    num_bytes = export_weights(trained_run(), tmp_path / "weights")
    whole, kept = TrainedRun.load(trained_run()), TrainedRun.load(tmp_path / "weights")
    assert (kept.config, kept.counters) == (whole.config, whole.counters)
    assert kept.best_arm == whole.best_arm
    for name, weight in whole.weights.items():
        torch.testing.assert_close(kept.weights[name].float(), weight.float(), rtol=1e-3, atol=1e-6)
    files = [file for file in (tmp_path / "weights").rglob("*") if file.is_file()]
    assert num_bytes <= sum(file.stat().st_size for file in files) < 300_000
    policy = agent57.load(tmp_path / "weights")
    action, _ = policy.act(np.eye(12, dtype=np.float32)[1], policy.initial_state(), first=True)
    assert action in (0, 1)
    assert np.isfinite(episode_returns(kept, kept.best_arm, 0.0, 2)).all()


def test_weights_are_evaluated_by_the_command_line_and_not_resumed(tmp_path: Path) -> None:
    export_weights(trained_run(), tmp_path)
    code, text = call("evaluate", tmp_path, "--episodes", 2)
    assert code == 0, text
    code, text = call("resume", tmp_path)
    assert code == 2, text
    assert len(text.strip().splitlines()) <= 3
    assert "holds weights only" in " ".join(text.split())


def test_weights_of_an_agent_without_curiosity(tmp_path: Path) -> None:
    export_weights(trained_run(agent="r2d2"), tmp_path)
    assert TrainedRun.load(tmp_path).curiosity is None
