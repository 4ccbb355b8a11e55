"""An interrupted run and an uninterrupted one are the same run. By law: bit for bit."""

import pytest

from agent57.storage import folder
from agent57.storage.segments import segments, stream
from tests.runtime.runs import difference, interrupted, lines, result, resume, run_config, train

# Ticks at which runs are stopped; a tick has three steps. The first window of two blocks of four
# steps is complete after nine steps. A line of metrics is due every ten steps. Episodes of the cue
# task last ten steps.
SITTINGS = [1, 1, 2, 4, 1, 1, 1, 8, 1, 13]


@pytest.mark.parametrize("agent", ["agent57", "r2d2"])
def test_a_toy_run_is_the_same_however_often_it_is_stopped(agent, tmp_path, monkeypatch):
    config = run_config("toy/cue", 180, family={"arms": 4})
    if agent == "r2d2":  # no curiosity, n-step targets, one arm
        config = run_config(
            "toy/cue", 180, family={"arms": 1, "max_beta": 0.0}, learner={"loss": "n_step"}
        )
    train(config, tmp_path / "whole")
    interrupted(config, tmp_path / "parts", SITTINGS, monkeypatch)
    whole, parts = result(tmp_path / "whole"), result(tmp_path / "parts")
    assert not difference(whole, parts)
    assert whole["state"]["counters"]["updates"] > 20
    assert len(whole["metrics"]) == 6
    assert whole["episodes"].count("evaluator") > 3


def test_a_replay_that_lets_go_of_blocks_is_restored(tmp_path, monkeypatch):
    config = run_config("toy/cue", 240, replay={"capacity": 60})
    train(config, tmp_path / "whole")
    interrupted(config, tmp_path / "parts", [20, 25, 3, 20], monkeypatch)
    whole = result(tmp_path / "whole")
    assert not difference(whole, result(tmp_path / "parts"))
    assert min(whole["blocks"]) > 0


@pytest.mark.parametrize("parallel", ["sync", "async"])
def test_cart_pole_continues_in_mid_episode(parallel, tmp_path, monkeypatch):
    config = run_config("CartPole-v1", 150, env={"parallel": parallel})
    train(config, tmp_path / "whole")
    interrupted(config, tmp_path / "parts", [5, 11, 9], monkeypatch)
    whole = result(tmp_path / "whole")
    assert not difference(whole, result(tmp_path / "parts"))
    assert len(lines(tmp_path / "whole", "episodes.jsonl")) > 3


def test_atari_continues_in_mid_episode(tmp_path, monkeypatch):
    config = run_config(
        "pong",
        4 * 3 * 40,
        env={"frame_size": 36, "max_episode_frames": 100},
        run={"log_frames": 120},
        network={"channels": (2, 2, 2)},
    )
    train(config, tmp_path / "whole")
    interrupted(config, tmp_path / "parts", [9, 14], monkeypatch)
    whole = result(tmp_path / "whole")
    assert not difference(whole, result(tmp_path / "parts"))
    assert whole["state"]["counters"]["updates"] > 10
    assert len(lines(tmp_path / "whole", "episodes.jsonl")) > 3


def test_a_finished_run_goes_on_as_if_it_had_been_longer(tmp_path):
    train(run_config("toy/cue", 120), tmp_path / "whole")
    train(run_config("toy/cue", 60), tmp_path / "parts")
    resume(tmp_path / "parts", frames=120)
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "parts"))


def test_a_run_whose_journal_is_sealed_is_the_same(tmp_path, monkeypatch):
    config = run_config("toy/cue", 180)
    train(config, tmp_path / "whole")
    monkeypatch.setitem(folder.SEALED_AT, "episodes.jsonl", 700)
    interrupted(config, tmp_path / "parts", [20, 3, 4, 13, 2], monkeypatch)
    journal = tmp_path / "parts" / "episodes.jsonl"
    assert len([segment for segment in segments(journal) if segment.is_packed]) > 2
    whole, parts = result(tmp_path / "whole"), result(tmp_path / "parts")
    assert b"".join(stream(journal)).decode() == whole.pop("episodes")
    parts.pop("episodes")
    assert not difference(whole, parts)
