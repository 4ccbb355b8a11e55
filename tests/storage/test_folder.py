"""By contract: one owner, whole files, journals that can be cut back."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from agent57.config import Config, ConfigError
from agent57.storage import folder as module
from agent57.storage.files import open_plain, write_atomic
from agent57.storage.folder import RunFolder, check_free, read_config, write_json
from agent57.storage.growing import GrowingFile
from agent57.storage.history import read_whole_lines


def full_disk(*_):
    raise OSError(28, "No space left on device")


def test_a_run_folder_holds_its_configuration(tmp_path):
    RunFolder.create(tmp_path / "a" / "run", Config()).close()
    assert read_config(tmp_path / "a" / "run") == Config()
    with pytest.raises(ConfigError, match="already holds a run"):
        RunFolder.create(tmp_path / "a" / "run", Config())


def test_what_is_no_free_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        check_free(tmp_path / "file")
    (tmp_path / "lost" / "checkpoints").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"without its config\.json"):
        check_free(tmp_path / "lost")


def test_only_one_process_may_hold_a_run(tmp_path):
    folder = RunFolder.create(tmp_path, Config())
    code = f"""if True:
        from pathlib import Path
        from agent57.config import ConfigError
        from agent57.storage.folder import RunFolder
        try:
            RunFolder(Path({str(tmp_path)!r}))
        except ConfigError as error:
            print(error)
    """
    command = [sys.executable, "-c", code]
    assert "in use by another" in subprocess.run(command, capture_output=True, text=True).stdout
    folder.close()
    assert subprocess.run(command, capture_output=True, text=True).stdout == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "damaged"),
        (b"\xff", "damaged"),
        (b"[]", "damaged"),
        (b'{"version": 99}', "version 99 cannot be read"),
        (b'{"version": 1}', "actor is missing"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_named(content, reason, tmp_path):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"config\.json.*{reason}"):
        read_config(tmp_path)


def test_a_configuration_of_the_wrong_type_is_named(tmp_path):
    RunFolder.create(tmp_path, Config()).close()
    values = json.loads((tmp_path / "config.json").read_text())
    values["replay"]["capacity"] = "many"
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ConfigError, match=r"replay\.capacity must be a whole number"):
        read_config(tmp_path)


def test_journals_are_readable_at_once_and_cut_back(tmp_path):
    folder = RunFolder.create(tmp_path, Config())
    folder.append("metrics.jsonl", {"frames": 1})
    assert (tmp_path / "metrics.jsonl").read_text() == '{"frames": 1}\n'
    sizes = folder.flush()
    folder.append("metrics.jsonl", {"frames": 2})
    folder.append("episodes.jsonl", {"return": 2})
    folder.close()

    folder = RunFolder(tmp_path)
    assert folder.cut_back(sizes) == []
    folder.append("metrics.jsonl", {"frames": 3})
    folder.sync()
    folder.close()
    assert (tmp_path / "metrics.jsonl").read_text() == '{"frames": 1}\n{"frames": 3}\n'
    assert (tmp_path / "episodes.jsonl").read_text() == ""


def test_lines_that_were_lost_are_said_and_not_made_up(tmp_path):
    folder = RunFolder.create(tmp_path, Config())
    folder.append("metrics.jsonl", {"frames": 1})
    sizes = folder.flush()
    folder.close()
    (tmp_path / "metrics.jsonl").write_text("")
    folder = RunFolder(tmp_path)
    assert folder.cut_back(sizes) == ["metrics.jsonl lacks 14 bytes it once had"]
    folder.close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == b""


def test_a_torn_line_is_trimmed_so_that_the_next_stands_alone(tmp_path):
    folder = RunFolder.create(tmp_path, Config())
    for frames in (1, 2):
        folder.append("metrics.jsonl", {"frames": frames})
    sizes, checksums = folder.flush(), folder.checksums()
    folder.close()
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(file.read_bytes()[:-3])
    folder = RunFolder(tmp_path)
    assert folder.cut_back(sizes, checksums) == ["metrics.jsonl lacks 14 bytes it once had"]
    folder.append("metrics.jsonl", {"frames": 3})
    sizes, checksums = folder.flush(), folder.checksums()
    folder.close()
    assert file.read_text() == '{"frames": 1}\n{"frames": 3}\n'
    folder = RunFolder(tmp_path)
    assert folder.cut_back(sizes, checksums) == []  # later checkpoints accept the cut
    folder.close()


def test_a_line_that_was_changed_is_noticed(tmp_path):
    folder = RunFolder.create(tmp_path, Config())
    for frames in (11, 12, 13):
        folder.append("metrics.jsonl", {"frames": frames})
    sizes, checksums = folder.flush(), folder.checksums()
    folder.close()
    file = tmp_path / "metrics.jsonl"
    file.write_text(file.read_text().replace("12", "72"))  # still a number
    rows, damage = read_whole_lines(file)
    assert [row["frames"] for row in rows] == [11, 13]
    assert damage == [f"{file} is damaged in line 2"]
    folder = RunFolder(tmp_path)
    assert folder.cut_back(sizes, checksums) == [
        "metrics.jsonl was changed from outside: line 2 is damaged"
    ]
    folder.append("metrics.jsonl", {"frames": 14})
    folder.close()
    rows, damage = read_whole_lines(file)  # after resuming, damaged lines are still reported
    assert [row["frames"] for row in rows] == [11, 13, 14]
    assert damage == [f"{file} is damaged in line 2"]


def test_lines_that_move_are_not_damaged(tmp_path):
    folder = RunFolder.create(tmp_path, Config())
    for frames in range(9):
        folder.append("metrics.jsonl", {"frames": frames})
    folder.close()
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(file.read_bytes().replace(b"2}\n", b"2}!"))  # lines 3 and 4 become one
    rows, damage = read_whole_lines(file)
    assert [row["frames"] for row in rows] == [0, 1, 4, 5, 6, 7, 8]
    assert damage == [f"{file} is damaged in line 3"]


def test_journals_of_older_runs_have_no_checksums_and_get_some(tmp_path):
    folder = RunFolder.create(tmp_path, Config())
    for frames in (1, 2):
        folder.append("metrics.jsonl", {"frames": frames})
    sizes, checksums = folder.flush(), folder.checksums()
    folder.close()
    (tmp_path / ".metrics.sums").unlink()
    file = tmp_path / "metrics.jsonl"
    assert read_whole_lines(file) == ([{"frames": 1}, {"frames": 2}], [])
    folder = RunFolder(tmp_path)
    assert folder.cut_back(sizes, checksums) == []
    folder.append("metrics.jsonl", {"frames": 3})
    folder.close()
    assert read_whole_lines(file) == ([{"frames": 1}, {"frames": 2}, {"frames": 3}], [])
    file.write_text(file.read_text().replace("1", "7"))
    assert read_whole_lines(file)[1] == [f"{file} is damaged in line 1"]


@pytest.mark.parametrize("name", ["metrics.jsonl", ".lock", ".config.json.partial"])
def test_links_are_not_written_through(name, tmp_path):
    RunFolder.create(tmp_path / "run", Config()).close()
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "run" / name).unlink(missing_ok=True)
    (tmp_path / "run" / name).symlink_to(outside)
    with pytest.raises((ConfigError, OSError), match="a symbolic link is not written through"):
        write_everything(tmp_path / "run")
    assert outside.read_text() == "mine"


def write_everything(path):
    with contextlib.closing(RunFolder(path)) as folder:
        folder.write_config(Config())
        folder.append("metrics.jsonl", {"frames": 1})
        folder.flush()


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_what_is_not_a_plain_file_is_not_waited_for(kind, tmp_path):
    file = tmp_path / "file"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    with pytest.raises(OSError, match="not a plain file|Is a directory"):
        open_plain(file)


def test_starting_over_never_throws_metrics_away(tmp_path):
    folder = RunFolder.create(tmp_path, Config())
    folder.append("episodes.jsonl", {"return": 2})
    folder.start_over()
    assert folder.flush() == {"metrics.jsonl": 0, "episodes.jsonl": 0}
    folder.append("metrics.jsonl", {"frames": 1})
    with pytest.raises(ConfigError, match="records but no checkpoint"):
        folder.start_over()
    folder.close()


def test_what_a_full_disk_refuses_is_not_lost(tmp_path):
    file = GrowingFile(tmp_path / "sub" / "lines")
    (tmp_path / "sub").write_text("in the way")  # the folder cannot be made
    file.append(b"one\n")
    with pytest.raises(OSError, match="exists"):
        file.flush()
    file.append(b"two\n")
    (tmp_path / "sub").unlink()
    assert file.flush() == 8
    assert (tmp_path / "sub" / "lines").read_bytes() == b"one\ntwo\n"
    file.close()


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    write_atomic(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_atomic(tmp_path / "a", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["link to a device", "pipe", "."])
def test_what_is_no_plain_file_is_not_replaced(name, tmp_path):
    """/dev/stdout is a link to a device, which a rename would replace."""
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    elif name != ".":
        path.symlink_to("/dev/null")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match="not a plain file|Is a directory"):
        write_atomic(path, b"new")
    assert sorted(tmp_path.iterdir()) == before
    assert name == "." or not path.is_file()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(module.fcntl, "lockf", lambda *_: full_disk())
    with pytest.raises(ConfigError, match="cannot be written: No space"):
        RunFolder(tmp_path)


def test_numbers_are_written_into_a_folder_that_is_made(tmp_path):
    file = tmp_path / "no" / "such" / "folder" / "x.json"
    write_json(file, {"a": 1.5})
    assert json.loads(file.read_text()) == {"a": 1.5}
    with pytest.raises(ConfigError, match=r"^--json .* cannot be written: it is a folder$"):
        write_json(tmp_path, {})
