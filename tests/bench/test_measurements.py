"""Measurements that run as `python -m agent57.bench.NAME`, each in a small form on small agents."""

import importlib
import os
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from agent57.bench.checkpointing import measure as measure_checkpoints
from agent57.bench.cluster_overhead import make
from agent57.bench.driver import AnsweringLearner
from agent57.bench.growth import of_memory
from agent57.bench.memory import full
from agent57.bench.peers import agent57
from agent57.bench.play import Rows, record
from agent57.bench.processes import by_kind, core_seconds, descendants, newest, resident
from agent57.bench.replay_in_depth import measure_bytes, measure_fill, measure_scaling
from agent57.bench.replay_libraries import fill_agent57, measure
from agent57.bench.script import need
from agent57.bench.versions import main as compare_versions
from agent57.bench.watching import week
from agent57.config import Config
from tests.small import small_config

NAMES = (
    "checkpointing", "cluster_overhead", "driver", "growth", "memory", "peers", "replay_in_depth",
    "replay_libraries", "versions", "watching",
)  # fmt: skip


def small(*_: object) -> Config:
    return small_config(env={"name": "toy/cue"}, run={"checkpoint_seconds": 1.0, "threads": 1})


@pytest.mark.parametrize("name", NAMES)
def test_each_explains_itself(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"agent57.bench.{name}")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    assert f"python -m agent57.bench.{name}" in capsys.readouterr().out


def test_versions_take_turns_and_the_ratio_of_their_speeds_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parents[2]
    small = ["--env", "toy/cue", "--turns", "1", "--frames", "3000", "--scale", "tiny"]
    small += ["--run.log-frames", "500", "--replay.min-windows", "5"]
    monkeypatch.setattr(sys, "argv", ["versions", str(root), *small])
    compare_versions()
    told = capsys.readouterr().out
    ratio = float(told.rpartition("toy/cue: ")[2].split()[0])
    assert 0.1 < ratio < 10  # both turns train the same code


def test_a_turn_that_cannot_train_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    for option, told in (("--turns=0", "at least 1"), ("--env=nonsense", "training .* failed")):
        monkeypatch.setattr(sys, "argv", ["versions", str(root), option])
        with pytest.raises(SystemExit, match=told):
            compare_versions()


def test_a_folder_without_the_package_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["versions", str(tmp_path)])
    with pytest.raises(SystemExit, match="is no checkout of agent57"):
        compare_versions()


def test_a_missing_package_is_one_line() -> None:
    with pytest.raises(SystemExit, match="no_such_package is missing: pip install it"):
        need("no_such_package", "pip install it")


def test_a_checkpoint_is_written_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent57.bench.checkpointing.make", small)
    figures = measure_checkpoints(200, 1, tmp_path)
    assert figures["first"]["written_megabytes"] > 0
    assert figures["load_seconds"] > 0


def test_the_replay_is_full_when_the_peak_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent57.bench.memory.make_config", small)
    figures = full("toy/cue", num_updates=2)
    assert figures["updates"] == 2
    assert 1900 < figures["transitions"] <= 2000


def test_the_replay_is_measured_in_depth() -> None:
    recording = record("pong", 1, 170, seed=0)
    parts = measure_bytes({"pong": recording})["games"]["pong"]["level_3"]
    assert parts["total"] >= parts["frames"] + parts["steps"] + parts["states"]
    assert set(measure_scaling((10, 20), repeats=2)) == {"10", "20"}
    assert measure_fill(Rows(recording), 170)["transitions"] <= 170
    assert measure(fill_agent57, recording, 1)["bytes_per_transition"] > 0


def test_the_novelty_of_a_state_takes_time() -> None:
    assert of_memory(10, 0.0) > 0


def test_a_turn_plays_and_learns() -> None:
    turn = agent57("tiny", "float32")
    steps, learned = np.sum([turn(200) for _ in range(4)], axis=0)
    assert steps >= 800
    assert learned > 0


def test_a_long_run_is_made_up_and_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agent57.bench.watching.NUM_LINES", 100)
    monkeypatch.setattr("agent57.bench.watching.NUM_EPISODES", 200)
    week(tmp_path)
    assert "a zoom to a hundredth" in capsys.readouterr().out


def test_processes_are_found_with_their_use(tmp_path: Path) -> None:
    here = os.getpid()
    assert descendants(here)[here] == "driver"
    assert by_kind({here: "driver"}, core_seconds)["driver"] > 0
    assert by_kind({here: "driver"}, resident)["Ray"] == 0
    (tmp_path / "metrics.jsonl").write_text('{"frames": 1}\n{"frames": 2}\n')
    assert newest(tmp_path / "metrics.jsonl") == {"frames": 2}
    assert newest(tmp_path / "none.jsonl") == {}


def test_a_cluster_that_is_compared_never_learns() -> None:
    options = Namespace(scale="tiny", env="pong", actors=2, lanes_per_actor=3)
    config = make(options)
    assert config.lanes_per_actor == 3
    assert config.replay.min_windows * config.sequence.replay_period >= config.replay.capacity - 100


def test_a_learner_that_only_answers_counts_updates() -> None:
    learner = AnsweringLearner({"w": np.zeros(1, np.float32)})
    _, (key, priorities) = learner.update({"key": np.arange(3)})
    assert len(key) == len(priorities) == 3
    assert learner.weights()[1] == learner.num_updates() == 1
