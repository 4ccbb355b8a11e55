import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent57.config import ConfigError
from agent57.watch import followed_runs
from agent57.watch.followed_runs import FollowedRuns
from tests.reports.made_up_runs import episode, write_lines, write_run

FIELDS = episode(5, np.random.default_rng(0))  # of the evaluator, in its evaluation phase


def evaluation(frames: int, value: float) -> dict[str, Any]:
    return {**FIELDS, "frames": frames, "return": value}


def test_runs_that_begin_later_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_runs, "SCAN_SECONDS", 0.0)
    runs = FollowedRuns([tmp_path / "suite"], wait=True)
    assert json.loads(runs.page([]))["shown"] == []
    write_run(tmp_path / "suite" / "pong" / "agent57" / "seed0", env="pong")
    assert json.loads(runs.page([]))["shown"] == ["suite/pong/agent57/seed0"]


def test_folders_without_a_run_are_refused_unless_told_to_wait(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        FollowedRuns([tmp_path / "nothing"])
    with pytest.raises(ConfigError, match="name at least one run folder"):
        FollowedRuns([])


def test_a_version_changes_when_the_records_do(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    runs = FollowedRuns([run])
    before = runs.versions([])
    assert runs.versions([]) == before
    write_lines(run / "metrics.jsonl", [{"frames": 1}])
    assert runs.versions([]) != before


def test_a_run_that_has_its_frames_is_finished(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_lines(run / "metrics.jsonl", [{"frames": 10**9}])
    (card,) = json.loads(FollowedRuns([run]).page([]))["runs"]
    assert card["state"] == "finished"


def test_a_run_that_is_resumed_with_more_frames_trains_again(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    write_lines(run / "metrics.jsonl", [{"frames": config["run"]["frames"]}])
    runs = FollowedRuns([run])
    before = runs.versions([])
    config["run"]["frames"] *= 2
    (run / "config.json").write_text(json.dumps(config))
    assert runs.versions([]) != before
    (card,) = json.loads(runs.page([]))["runs"]
    assert (card["state"], card["total"]) == ("training", config["run"]["frames"])


def test_a_run_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "good")
    (write_run(tmp_path / "bad") / "config.json").write_text("{")
    page = json.loads(FollowedRuns([tmp_path]).page([]))
    assert len(page["shown"]) == 1
    (problem,) = page["problems"]
    assert "bad/config.json is damaged" in problem
    with pytest.raises(ConfigError, match="bad/config.json is damaged"):
        FollowedRuns([tmp_path / "bad"])


def test_a_run_that_vanishes_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    for name in ("stays", "goes"):
        write_run(tmp_path / name)
    runs = FollowedRuns([tmp_path])
    before = runs.versions([])
    shutil.rmtree(tmp_path / "goes")
    assert runs.versions([]) != before
    page = json.loads(runs.page([]))
    assert "goes is gone" in page["problems"][0]
    assert len(page["runs"]) == 2


def test_the_results_of_a_suite_are_a_change(tmp_path: Path) -> None:
    write_run(tmp_path / "pong" / "agent57" / "seed0")
    runs = FollowedRuns([tmp_path])
    before = runs.versions([])
    (tmp_path / "results.json").write_text("{}")  # written after the last run has ended
    assert runs.versions([]) != before


def test_a_zoom_changes_charts_but_neither_scores_nor_health(tmp_path: Path) -> None:
    for game in ("pong", "boxing"):
        run = write_run(tmp_path / game, env=game, num_episodes=0)
        rows = [evaluation(100 * i, float(i % 23)) for i in range(200)]
        write_lines(run / "episodes.jsonl", rows)
    runs = FollowedRuns([tmp_path])
    whole, part = (json.loads(runs.page([], zoom))["sections"] for zoom in (None, (8000, 12_000)))
    for before, after in zip(whole, part, strict=True):
        for kind in ("title", "text", "cards", "tables"):
            assert after.get(kind) == before.get(kind)
    assert whole[1]["title"] == "Over training"
    assert part[1] == whole[1]
    curves = [dict(zip(*s[2]["charts"][0]["data"][:2], strict=True)) for s in (whole, part)]
    zoomed = {x: y for x, y in curves[1].items() if 8000 <= x <= 12_000}
    assert len(zoomed) > 20
    assert zoomed == {x: y for x, y in curves[0].items() if 8000 <= x <= 12_000}
