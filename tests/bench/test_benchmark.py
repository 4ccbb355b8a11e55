"""The whole benchmark in its quick form: it runs and reports everything. Speed is not tested."""

import json
from pathlib import Path

import pytest
import torch
from rich.console import Console

from agent57.cli import run
from agent57.precision import has_bfloat16

PARTS = ["acting", "novelty", "replay insert", "replay sample", "learning", "end to end"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    path: Path = tmp_path_factory.mktemp("bench") / "bench.json"
    with path.with_suffix(".txt").open("w") as screen:
        code = run(["bench", "--quick", "--json", str(path)], Console(file=screen, width=160))
    assert code == 0
    figures = json.loads(path.read_text())
    figures["screen"] = path.with_suffix(".txt").read_text()
    return figures


def test_every_part_is_measured_beside_its_limit(report: dict) -> None:
    in_bfloat16 = ["learning"] if has_bfloat16(torch.device("cpu")) else []
    assert [part["part"] for part in report["parts"]] == [*PARTS[:-1], *in_bfloat16, PARTS[-1]]
    settings = [part["setting"] for part in report["parts"] if part["part"] == "learning"]
    assert sum("bfloat16" in setting for setting in settings) == len(in_bfloat16)
    for part in report["parts"]:
        assert part["lowest"] <= part["rate"] <= part["highest"]
        assert part["limit"] > 0
        assert part["ratio"] > 0
        assert part["cpu_ratio"] > 0
        assert part["aim"] is not None


def test_the_machine_and_its_limits_are_named(report: dict) -> None:
    assert {"sgemm GFLOP/s", "memory read GB/s"} <= set(report["limits"])
    assert {"processor", "cores", "load", "torch"} <= set(report["machine"])


def test_scaling_tables_are_there(report: dict) -> None:
    *others, sharing = report["scaling"]
    assert others == ["lanes", "episodic memory", "threads"]
    assert sharing == "sharing a torso and core (limit: separate networks)"


def test_shared_networks_are_compared_with_separate_ones(report: dict) -> None:
    rows = report["scaling"]["sharing a torso and core (limit: separate networks)"]
    assert [(row["part"], row["aim"]) for row in rows] == [("acting", 1.5), ("learning", 1.6)]
    for row in rows:  # both do the same work, so their rates are similar
        assert 0.2 < row["limit"] / row["rate"] < 5


def test_memory_per_transition_is_reported(report: dict) -> None:
    assert set(report["bytes_per_transition"]) == {"pong", "mean"}


def test_the_screen_shows_the_parts(report: dict) -> None:
    for name in [*PARTS, "sgemm", "MFLOP per step", "bytes per transition"]:
        assert name in report["screen"]


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*_: object) -> None:
        pytest.fail("measured for nothing")

    monkeypatch.setattr("agent57.bench.benchmark.run_bench", measure)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "bench.json", tmp_path):
        with (tmp_path / "screen.txt").open("w") as screen:
            console = Console(file=screen, width=500)
            assert run(["bench", "--json", str(place)], console, console) == 2
        text = (tmp_path / "screen.txt").read_text()
        assert text.startswith(f"agent57: --json {place} cannot be written")
        assert text.count("\n") == 1


def test_three_timesteps_are_learned_for_each_step(report: dict) -> None:
    assert report["parts"][-1]["setting"] == "3.0 learned a step"
