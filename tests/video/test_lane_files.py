import json
import os
import time
from pathlib import Path

import pytest

from agent57.storage.history import read_lines
from agent57.video import lane_files
from agent57.video.lane_files import LaneFiles, LaneWriter
from tests.runtime.runs import CLOCK, lines, run_config, train

LANES = {
    source: [{"source": source, "lane": lane, "episode": 1, "steps": 2} for lane in range(count)]
    for source, count in (("evaluator", 1), ("actor", 2))
}


def test_nothing_is_gathered_while_nobody_watches(tmp_path: Path) -> None:
    LaneWriter(tmp_path).show(lambda: pytest.fail("gathered"))
    assert not (tmp_path / "live").exists()
    LaneFiles(tmp_path).ask()
    old = time.time() - 60
    os.utime(tmp_path / "live" / "watched", (old, old))
    LaneWriter(tmp_path).show(lambda: pytest.fail("gathered for an old sign"))


def test_a_watcher_reads_what_the_training_wrote(tmp_path: Path) -> None:
    files = LaneFiles(tmp_path)
    assert files.read() == []
    files.ask()
    LaneWriter(tmp_path).show(lambda: LANES)
    assert files.read() == [*LANES["evaluator"], *LANES["actor"]]
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("share", [1.0, 0.1, 2.0])  # the training's share of a core
def test_writing_is_followed_by_its_share_of_training(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, core, writing = [100.0], [0.0], [0.0]
    monkeypatch.setattr(lane_files.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(lane_files.time, "process_time", lambda: core[0])
    monkeypatch.setattr(lane_files.time, "thread_time", lambda: core[0])
    monkeypatch.setattr(LaneWriter, "is_watched", True)
    writer = LaneWriter(tmp_path)

    def gather() -> dict:
        core[0] += 0.01
        writing[0] += 0.01
        return LANES

    for _ in range(2000):
        writer.show(gather)
        clock[0] += 0.1
        core[0] += 0.1 * share
    assert writing[0] >= 0.01
    assert writing[0] - 0.01 <= core[0] / lane_files.REST  # no rest comes before the first writing


def test_a_disk_that_refuses_does_not_end_a_run(tmp_path: Path) -> None:
    LaneFiles(tmp_path).ask()
    (tmp_path / "live" / "actor.partial").mkdir()
    LaneWriter(tmp_path).show(lambda: LANES)
    assert LaneFiles(tmp_path).read() == LANES["evaluator"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A foreign run folder may hold links in place of these files."""
    outside, secret = tmp_path / "outside", tmp_path / "secret"
    outside.mkdir()
    secret.write_text("mine")
    for name, links in {"a": ["."], "b": ["actor.partial", "evaluator.partial", "watched"]}.items():
        run = tmp_path / name
        run.mkdir()
        if links == ["."]:
            (run / "live").symlink_to(outside)
            (outside / "watched").touch()
        else:
            (run / "live").mkdir()
            for link in links:
                (run / "live" / link).symlink_to(secret)
        before = secret.stat().st_mtime_ns
        LaneFiles(run).ask()
        LaneWriter(run).show(lambda: LANES)
        assert secret.read_text() == "mine"
        assert secret.stat().st_mtime_ns == before
    assert [path.name for path in outside.iterdir()] == ["watched"]


def test_a_sign_from_the_future_does_not_count(tmp_path: Path) -> None:
    LaneFiles(tmp_path).ask()
    late = time.time() + 3600
    os.utime(tmp_path / "live" / "watched", (late, late))
    assert not LaneWriter(tmp_path).is_watched


def test_entries_that_describe_no_lane_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    os.mkfifo(tmp_path / "live" / "evaluator.json")
    foreign = [
        5,
        {"lane": 1},
        {**LANES["actor"][0], "source": []},
        {**LANES["actor"][0], "lane": "x"},
    ]
    for content in (foreign, {"a": 1}, 7, LANES["actor"]):
        (tmp_path / "live" / "actor.json").write_text(json.dumps(content))
        assert LaneFiles(tmp_path).read() == (content if content is LANES["actor"] else [])


@pytest.mark.parametrize("env", ["toy/cue", "pong"])
def test_a_watched_run_is_bit_for_bit_the_same(
    env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_files, "WRITE_SECONDS", 0.0)
    monkeypatch.setattr(lane_files, "REST", 0)
    monkeypatch.setattr("agent57.runtime.session.VIEW_SECONDS", 0.0)
    config = run_config(env, 400 if env == "pong" else 300)
    train(config, tmp_path / "alone")
    monkeypatch.setattr(LaneWriter, "is_watched", True)
    train(config, tmp_path / "watched")
    assert read_lines(tmp_path / "alone" / "episodes.jsonl") == read_lines(
        tmp_path / "watched" / "episodes.jsonl"
    )
    rows = [
        [{k: v for k, v in row.items() if k not in CLOCK} for row in lines(path, "metrics.jsonl")]
        for path in (tmp_path / "alone", tmp_path / "watched")
    ]
    assert rows[0] == rows[1]
    assert json.loads((tmp_path / "watched" / "live" / "actor.json").read_text())
