import json
from pathlib import Path

import pytest

from agent57.storage import tail
from agent57.storage.history import RunHistory
from agent57.storage.tail import GrowingLines, RunTail, find_frames, lines_with, sample_lines
from tests.reports.made_up_runs import write_lines, write_run


def append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


def test_lines_come_once_and_only_when_they_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    lines = GrowingLines(file)
    assert lines.read() == (b"", False)
    append(file, "one\ntw")
    assert lines.read() == (b"one\n", False)
    append(file, "o\nthree\n")
    assert lines.read() == (b"two\nthree\n", False)
    assert lines.read() == (b"", False)


def test_a_file_that_was_cut_back_and_has_grown_again_starts_over(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("1\n2\n3\n")
    lines = GrowingLines(file)
    lines.read()
    file.write_text("1\n2\n4\n5\n")  # longer than what was read, but not the same
    assert lines.read() == (b"1\n2\n4\n5\n", True)


def test_a_tail_is_what_reading_the_whole_run_says(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", env="pong")
    whole = RunHistory.read(run)
    follower = RunTail(run)
    assert follower.poll()
    assert not follower.poll()
    history = follower.history()
    assert history.metrics == whole.metrics
    assert history.episodes == [row for row in whole.episodes if row["phase"] == "evaluate"]
    append(run / "metrics.jsonl", json.dumps({"frames": 13_000, "loss/rnd": 1.0}) + "\n")
    assert follower.poll()
    assert follower.latest == {"frames": 13_000, "loss/rnd": 1.0}


def test_a_resumed_run_forgets_what_was_cut_off(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    follower = RunTail(run)
    follower.poll()
    rows = RunHistory.read(run).metrics[:5]
    write_lines(run / "metrics.jsonl", rows)
    assert follower.poll()
    assert follower.history().metrics == rows


def test_long_metrics_are_sampled_and_a_zoom_brings_the_lines_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "SAMPLED_BYTES", 2000)
    monkeypatch.setattr(tail, "MAX_ROWS", 20)
    run = write_run(tmp_path / "run", num_lines=0)
    rows = [{"frames": 10 * i, "updates": i} for i in range(1000)]
    write_lines(run / "metrics.jsonl", rows)
    follower = RunTail(run)
    follower.poll()
    sampled = follower.history().metrics
    assert len(sampled) == 21  # 20 samples and the last line
    assert sampled[0] == rows[0]
    assert sampled[-1] == rows[-1]
    assert all(row in rows for row in sampled)
    gaps = [b["updates"] - a["updates"] for a, b in zip(sampled, sampled[1:], strict=False)]
    assert max(gaps) <= 2 * min(gaps[:-1])
    assert follower.history(3000, 3100).metrics == rows[300:311]


def test_rows_are_thinned_while_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "MAX_ROWS", 4)
    run = write_run(tmp_path / "run", num_lines=0)
    follower = RunTail(run)
    for i in range(9):
        append(run / "metrics.jsonl", json.dumps({"frames": i}) + "\n")
        follower.poll()
    assert [row["frames"] for row in follower.history().metrics] == [0, 2, 4, 6, 8]
    assert follower.history(2, 5).metrics == [{"frames": i} for i in (2, 3, 4, 5)]


def test_marked_lines_are_found_by_definition() -> None:
    lines = [b"a x\n", b"x\n", b"b\n", b"c x x\n", b"d\n"]
    assert list(lines_with(b"x", b"".join(lines))) == [b"a x\n", b"x\n", b"c x x\n"]


def test_bisection_finds_the_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [{"frames": i * i} for i in range(50)]
    write_lines(file, rows)
    for frames in (0, 1, 500, 2400, 9999):
        start = find_frames(file, frames)
        found = [json.loads(line) for line in sample_lines(file, start, file.stat().st_size, 10)]
        expected = [row for row in rows if row["frames"] >= frames]
        assert found == expected


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    before = RunHistory.read(run).metrics
    append(run / "metrics.jsonl", 'no json\n["frames"]\n{"frames": "x"}\n')
    tail = RunTail(run)
    tail.poll()
    assert tail.history().metrics == before
    assert tail.history().damage == ("metrics.jsonl: 3 damaged lines are left out",)
