"""By contract: unchanged files are read back, and any other file is named."""

import pickle
import zipfile

import pytest
import torch

from agent57.storage import manifest


class Bomb:
    def __reduce__(self):
        return (print, ("code was executed",))


def test_a_manifest_is_read_back(tmp_path):
    entry = manifest.write_file(tmp_path / "000000000001.state", [b"12", b"3"])
    assert entry["bytes"] == 3
    segments = [
        {**manifest.write_file(tmp_path / "000000000001.blocks", [b"x"]), "first": 0, "last": 2}
    ]
    written = {"counters": {"frames": 1}, "state": entry, "segments": segments}
    manifest.write_manifest(tmp_path / "m.json", written)
    read = manifest.read_manifest(tmp_path / "m.json")
    assert read["state"] == entry
    assert manifest.files_of(read) == {"000000000001.state", "000000000001.blocks"}
    for forged in (
        {"counters": 5},
        {"counters": {"frames": "x"}},
        {"segments": None},
        {"segments": [{**segments[0], "last": "x"}]},
        {"state": {**entry, "file": "../../etc/passwd"}},
        {"state": {**entry, "bytes": None}},
        {"state": "000000000001.state"},
    ):
        manifest.write_manifest(tmp_path / "m.json", {**written, **forged})
        with pytest.raises(manifest.DamagedCheckpoint, match=r"m\.json is no manifest"):
            manifest.read_manifest(tmp_path / "m.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000000000001.blocks",
        "000000000001.state",
        "m.json",
    ]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"null", b"\xff\xfe", b'{"manifest": 3, "sha256": 4}']
)
def test_a_foreign_manifest_is_named(content, tmp_path):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(manifest.DamagedCheckpoint, match=r"m\.json"):
        manifest.read_manifest(tmp_path / "m.json")


def test_a_manifest_of_another_format_is_named(tmp_path):
    manifest.write_manifest(tmp_path / "m.json", {"format": 99})
    with pytest.raises(manifest.DamagedCheckpoint, match="format 99"):
        manifest.read_manifest(tmp_path / "m.json")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"abcd", "4 bytes, not 3"), (b"abd", "checksum"), (None, "No such file")],
)
def test_a_changed_file_is_named(content, reason, tmp_path):
    entry = manifest.write_file(tmp_path / "a", [b"abc"])
    manifest.verify(tmp_path, entry)
    (tmp_path / "a").unlink()
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(manifest.DamagedCheckpoint, match=f"a.*{reason}"):
        manifest.verify(tmp_path, entry)


@pytest.mark.parametrize("in_part", [False, True])
def test_a_state_is_read_back_and_outlives_its_file(in_part, tmp_path):
    torch.save({"x": torch.arange(5.0), "y": [1, "two"]}, tmp_path / "saved")
    entry = manifest.write_file(tmp_path / "a.state", [(tmp_path / "saved").read_bytes()])
    state = manifest.read_state(tmp_path, entry, in_part=in_part)
    (tmp_path / "a.state").unlink()
    assert torch.equal(state["x"], torch.arange(5.0))
    assert state["y"] == [1, "two"]
    state["x"] += 1  # the tensor can be written to


@pytest.mark.parametrize("in_part", [False, True])
def test_reading_a_state_runs_no_code(in_part, tmp_path, capsys):
    torch.save({"x": Bomb()}, tmp_path / "saved")
    for content in (pickle.dumps(Bomb()), (tmp_path / "saved").read_bytes(), b"no state at all"):
        entry = manifest.write_file(tmp_path / "evil.state", [content])  # with a valid checksum
        with pytest.raises(manifest.DamagedCheckpoint, match=r"evil\.state holds no state"):
            manifest.read_state(tmp_path, entry, in_part=in_part)
    assert capsys.readouterr().out == ""


def test_a_write_that_fails_leaves_nothing(tmp_path):
    def parts():
        yield b"some"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        manifest.write_file(tmp_path / "a", parts())
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_would_grow_is_refused(tmp_path):
    """A file of kilobytes must not take gigabytes: neither packed nor by tensors without data."""
    torch.save({"a": torch.zeros(1000, 1000)}, tmp_path / "plain")
    with (
        zipfile.ZipFile(tmp_path / "plain") as plain,
        zipfile.ZipFile(tmp_path / "packed", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for record in plain.infolist():
            packed.writestr(record.filename, plain.read(record))
    assert (tmp_path / "packed").stat().st_size < 100_000
    with pytest.raises(manifest.DamagedCheckpoint, match="it is compressed"):
        manifest.read_state(tmp_path, entry_of(tmp_path / "packed"))
    torch.save({"a": [torch.zeros(1).expand(1 << 40)]}, tmp_path / "wide")
    with pytest.raises(manifest.DamagedCheckpoint, match="larger than its data"):
        manifest.read_state(tmp_path, entry_of(tmp_path / "wide"))
    torch.save([1], tmp_path / "list")
    with pytest.raises(manifest.DamagedCheckpoint, match="it is a list"):
        manifest.read_state(tmp_path, entry_of(tmp_path / "list"))


def entry_of(file):
    return manifest.write_file(file.with_suffix(".sealed"), [file.read_bytes()])
