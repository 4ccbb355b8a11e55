"""A sealed and compressed journal has the content of a plain one, and damage is named."""

import json
import os
import shutil
import subprocess

import pytest

from agent57.commands.export import export_csv
from agent57.config import Config
from agent57.storage import folder as folder_module
from agent57.storage import segments as module
from agent57.storage.files import write_atomic
from agent57.storage.folder import RunFolder
from agent57.storage.history import read_whole_lines
from agent57.storage.journal_file import JournalFile
from agent57.storage.segments import compress, contents, segment_path, segments, stream
from agent57.storage.tail import GrowingJournal, RunTail
from tests.reports.made_up_runs import write_run

EPISODE = {
    "source": "evaluator", "phase": "evaluate", "lane": 0, "arm": 1, "beta": 0.0, "gamma": 0.9,
    "length": 5, "return": 1.0, "intrinsic_return": 0.0,
}  # fmt: skip


def line(number: int) -> bytes:
    return json.dumps({**EPISODE, "frames": number}).encode() + b"\n"


def written(path, count, segment_bytes=1000):
    """Write a journal of `count` lines, sealed every few lines; return it and its file."""
    journal = JournalFile(path / "episodes.jsonl", segment_bytes)
    for number in range(count):
        journal.append(line(number))
    return journal, path / "episodes.jsonl"


def frames(file) -> list[int]:
    rows, damage = read_whole_lines(file)
    assert damage == []
    return [row["frames"] for row in rows]


def test_a_journal_is_its_segments_and_its_file(tmp_path):
    journal, file = written(tmp_path, 40)
    whole = b"".join(line(number) for number in range(40))
    assert len(segments(file)) > 3
    assert journal.flush() == len(whole)
    assert b"".join(stream(file)) == whole
    journal.sync()  # compresses
    assert all(segment.is_packed for segment in segments(file))
    assert b"".join(stream(file)) == whole
    assert frames(file) == list(range(40))
    journal.close()


def test_a_compressed_segment_is_plain_zstd(tmp_path):
    if shutil.which("zstdcat") is None:
        pytest.skip("zstdcat is not installed")
    journal, file = written(tmp_path, 40)
    journal.sync()
    journal.close()
    command = ["zstdcat", *(segment.path for segment in segments(file))]
    sealed = subprocess.run(command, capture_output=True, check=True).stdout
    assert sealed + file.read_bytes() == b"".join(line(number) for number in range(40))


@pytest.mark.parametrize("num_kept", [0, 1, 7, 8, 20, 39, 40])
@pytest.mark.parametrize("is_packed", [False, True])
def test_cutting_back_reaches_any_line(num_kept, is_packed, tmp_path):
    journal, file = written(tmp_path / "whole", num_kept)
    size, checksum = journal.flush(), journal.checksum
    journal.close()
    journal, file = written(tmp_path / "long", 40)
    if is_packed:
        journal.sync()
    journal.close()
    journal = JournalFile(file, 1000)
    assert journal.cut_back(size, checksum) == ""
    assert journal.flush() == size
    assert journal.checksum == checksum
    for number in range(num_kept, 45):
        journal.append(line(number))
    journal.sync()
    assert frames(file) == list(range(45))
    alone, other = written(tmp_path / "alone", 45)
    assert alone.checksum == journal.checksum
    alone.close()
    journal.close()


@pytest.mark.parametrize("name", ["rename", "unlink", "replace", "truncate", "fsync"])
def test_an_interruption_anywhere_leaves_a_journal_to_cut_back(name, tmp_path, monkeypatch):
    """Interrupt at each call in turn: the rest can be cut back to any earlier checkpoint."""

    class Crash(BaseException):
        pass

    journal, file = written(tmp_path / "sizes", 12)
    size, checksum = journal.flush(), journal.checksum
    journal.close()
    for num_calls in range(8):
        path = tmp_path / str(num_calls)
        journal, file = written(path, 40)
        journal.sync() if num_calls % 2 else None
        calls, real = iter(range(num_calls)), getattr(os, name)

        def crash(*arguments, _calls=calls, _real=real):
            if next(_calls, None) is None:
                raise Crash
            return _real(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(os, name, crash)
            try:
                for number in range(40, 60):
                    journal.append(line(number))
                journal.sync()
                journal.cut_back(size, checksum)
            except Crash:
                pass
        journal.close()
        journal = JournalFile(file, 1000)
        assert journal.cut_back(size, checksum) == ""
        assert frames(file) == list(range(12))
        journal.close()


def test_damage_costs_one_part_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PART_BYTES", 400)
    journal, file = written(tmp_path, 40, 3000)
    size, checksum = journal.flush(), journal.checksum
    journal.sync()
    journal.close()
    damaged = segments(file)[0].path
    content = bytearray(damaged.read_bytes())
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 4
        damaged.write_bytes(changed)
        rows, damage = read_whole_lines(file)
        assert len(rows) >= 34  # lost: one part of three lines, or two with an unknown border
        if len(rows) < 40:  # otherwise zstd ignores the flipped bit
            assert damage[0].startswith(f"{damaged} is damaged in part ")
        assert all(line(row["frames"]) == json.dumps(row).encode() + b"\n" for row in rows)
    damaged.write_bytes(content[:-9])
    journal = JournalFile(file, 3000)
    found = journal.cut_back(size, checksum)
    assert found.startswith(f"episodes.jsonl was changed from outside: {damaged.name} is damaged")
    journal.close()


def test_a_forged_segment_takes_no_memory(tmp_path):
    file = tmp_path / "episodes.jsonl"
    plain = segment_path(file, 0, 50_000_000)
    write_atomic(plain, b"\n" * 50_000_000)
    compress(segments(file)[0])
    rows, damage = read_whole_lines(file)
    assert rows == []
    assert "would unpack to 50000000 bytes" in damage[0]
    lying = segments(file)[0].path.rename(f"{segment_path(file, 0, 1000)}.zst")
    assert sum(len(content) for content, _ in contents(segments(file)[0])) == 0
    assert f"{lying.name} is damaged" in read_whole_lines(file)[1][0]


def test_a_tail_reads_each_line_once_while_a_journal_is_sealed(tmp_path):
    journal, file = written(tmp_path, 0)
    tail, seen = GrowingJournal(file), []
    for number in range(60):
        journal.append(line(number))
        if number % 3 == 0:
            journal.sync()
        if number % 5 == 0:
            while content := tail.read(300)[0]:
                seen += [json.loads(row)["frames"] for row in content.splitlines()]
    assert seen == list(range(56))
    journal.cut_back(10 * len(line(10)))  # a resumed run
    content, restarts = tail.read(10_000)
    assert restarts
    journal.close()


def test_reports_watch_and_export_read_what_is_sealed(tmp_path, monkeypatch):
    monkeypatch.setitem(folder_module.SEALED_AT, "episodes.jsonl", 1000)
    run = write_run(tmp_path / "run", num_episodes=0)
    folder = RunFolder(run)
    for number in range(40):
        folder.append("episodes.jsonl", {**EPISODE, "frames": number})
    folder.sync()
    tail = RunTail(run)
    tail.poll()
    assert [row["frames"] for row in tail.history().episodes] == list(range(40))
    assert export_csv(run, "episodes", tmp_path / "a.csv") == (40, [])
    first = segments(run / "episodes.jsonl")[0].path
    first.write_bytes(first.read_bytes()[:-9])
    tail = RunTail(run)
    tail.poll()
    assert tail.history().damage == (
        f"{first.name} is damaged in part 1: its records are left out",
    )
    folder.close()


def test_the_journal_of_a_folder_counts_sealed_lines(tmp_path, monkeypatch):
    monkeypatch.setitem(folder_module.SEALED_AT, "episodes.jsonl", 1000)
    folder = RunFolder.create(tmp_path, Config())
    for number in range(40):
        folder.append("episodes.jsonl", {**EPISODE, "frames": number})
    assert folder.flush()["episodes.jsonl"] == sum(len(line(number)) for number in range(40))
    folder.check()
    folder.close()
