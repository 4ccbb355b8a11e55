"""By contract: opening a foreign run folder is safe, and forged folders are refused in one line.

Commands run no code of the folder, open no connection and write nothing outside the folder. They
take no more memory than the size of the folder suggests.
"""

import functools
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import zstandard

import agent57
from agent57.config import ConfigError
from agent57.replay.block import Block
from agent57.storage.checkpoint import CheckpointStore
from agent57.storage.manifest import read_manifest, write_manifest
from tests.runtime.runs import resume, run_config, train
from tests.trained_run import call, trained_run

EVIL = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree(trained_run(), tmp_path / "run")
    return tmp_path / "run"


def change_config(folder: Path, section: str, name: str, value: object) -> None:
    """Edit a run as a forger would: in config.json and in the sealed checkpoints."""
    file = folder / "config.json"
    values = json.loads(file.read_text())
    values[section][name] = value
    file.write_text(json.dumps(values))
    change_state(folder, lambda state: state["config"][section].update({name: value}))


def change_state(folder: Path, change) -> None:
    """Change the state of every checkpoint, and write valid checksums."""
    for path in sorted((folder / "checkpoints").glob("*.json")):
        manifest = read_manifest(path)
        file = path.with_suffix(".state")
        state = torch.load(file, weights_only=True)
        change(state)
        torch.save(state, file)
        reseal(manifest["state"], file)
        write_manifest(path, {k: v for k, v in manifest.items() if k != "format"})


def reseal(entry: dict, file: Path) -> None:
    content = file.read_bytes()
    entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("command", ["evaluate", "resume"])
def test_a_module_beside_the_run_is_not_imported(command, folder, monkeypatch):
    change_config(folder, "env", "name", f"evil_{command}:X-v0")
    (folder / f"evil_{command}.py").write_text(EVIL)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    code, text = call(command, ".")
    assert code == 2
    assert "would run" in text
    assert "--trust" in text
    assert not (folder / "executed").exists()
    code, text = call(command, ".", "--trust")
    assert (folder / "executed").exists()
    assert code == 2  # it registers no such environment


def test_a_module_beside_a_config_file_is_not_imported(folder, monkeypatch):
    change_config(folder, "env", "name", "evil_config:X-v0")
    (folder / "evil_config.py").write_text(EVIL)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    args = ("train", "--config", "config.json", "--out", "new")
    code, text = call(*args)
    assert code == 2
    assert "would run" in text
    assert "--trust" in text
    assert not (folder / "executed").exists()
    with pytest.raises(ConfigError, match="give --trust"):
        agent57.train(config=agent57.Run(folder).config, out=folder / "new", view="quiet")
    assert not (folder / "executed").exists()
    assert call(*args, "--trust")[0] == 2  # it registers no such environment
    assert (folder / "executed").exists()
    assert not (folder / "new").exists()


def test_a_loaded_policy_imports_no_module_beside_the_run(folder, monkeypatch):
    change_config(folder, "env", "name", "evil_load:X-v0")
    (folder / "evil_load.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(ConfigError, match="is not an installed package: give --trust"):
        agent57.load(folder)
    assert not (folder / "executed").exists()


def test_python_m_in_a_run_folder_runs_none_of_its_files(folder):
    (folder / "numpy.py").write_text(EVIL)
    command = [sys.executable, "-m", "agent57", "evaluate", ".", "--episodes", "1"]
    root = Path(agent57.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (folder / "executed").exists()


def test_a_ray_address_in_the_folder_is_not_contacted(tmp_path):
    train(run_config("toy/cue", 30), tmp_path / "run")
    change_config(tmp_path / "run", "cluster", "ray_address", "192.0.2.1:6379")
    with pytest.raises(ConfigError, match="resume it there with --ray-address 192.0.2.1:6379"):
        resume(tmp_path / "run")


def test_a_linked_file_is_not_shown_as_a_video(folder, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret of this machine")
    (folder / "film.gif").symlink_to(secret)
    (folder / "videos").mkdir(exist_ok=True)
    (folder / "videos" / "film.gif").symlink_to(secret)
    assert call("report", folder)[0] == 0
    assert "film.gif" not in (folder / "report.html").read_text()


@pytest.mark.parametrize("name", ["tensorboard", "checkpoints"])
def test_a_linked_folder_is_not_written_through(name, folder, tmp_path):
    outside = tmp_path / "outside"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)
    before = sorted(outside.rglob("*"))
    call("resume", folder, "--frames", 900)
    assert sorted(outside.rglob("*")) == before


def test_a_pipe_in_place_of_a_state_is_one_line(folder):
    for file in (folder / "checkpoints").glob("*.state"):
        file.unlink()
        os.mkfifo(file)
    for command in ("evaluate", "resume"):
        code, text = call(command, folder)
        assert code == 2
        assert "not a plain file" in text


FORGERIES = {
    "no parts": lambda state: state.pop("parts"),
    "parts of a wrong type": lambda state: state.update(parts=[1]),
    "no evaluator": lambda state: state["parts"].pop("evaluator"),
    "no networks": lambda state: state["parts"]["learner"].update(networks={}),
    "weights of a wrong type": lambda state: state["parts"]["learner"].update(networks=[1]),
    "no configuration": lambda state: state.pop("config"),
    "a configuration of a wrong type": lambda state: state.update(config=[]),
    "counters of a wrong type": lambda state: state.update(counters=None),
    "a controller of a wrong type": lambda state: state["parts"]["evaluator"].update(controller=1),
    "no journal": lambda state: state.pop("journal"),
    "a version of a wrong type": lambda state: state["parts"]["actor"].update(weights_version={}),
    "a count of a wrong type": lambda state: state["parts"]["learner"].update(num_updates=[1]),
    "no lane": lambda state: state["parts"]["actor"].update(needs_begin={}),
    "no phase": lambda state: state["parts"]["evaluator"].update(phase=[]),
    "a sum without its count": lambda state: state["journal"].update(sums={"a": 1.0}),
    "metrics of a wrong type": lambda state: state["journal"]["latest"].update(frames=None),
    "metrics without frames": lambda state: state["journal"].update(latest={"seconds": 1.0}),
}


# Parts of a state that a command does not read.
UNUSED = [
    ("counters of a wrong type", "resume"),
    ("no journal", "evaluate"),
    ("a version of a wrong type", "evaluate"),
    ("a count of a wrong type", "evaluate"),
    ("no lane", "evaluate"),
    ("no phase", "evaluate"),
    ("a sum without its count", "evaluate"),
    ("metrics of a wrong type", "evaluate"),
    ("metrics without frames", "evaluate"),
]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (name, command)
        for name in FORGERIES
        for command in ("evaluate", "resume")
        if (name, command) not in UNUSED
    ],
)
def test_a_sealed_but_forged_state_is_one_line(name, command, folder):
    change_state(folder, FORGERIES[name])
    code, text = call(command, folder)
    assert code == 2, text
    assert text.startswith("agent57: ")
    assert len(text.splitlines()) == 1


def test_weights_that_are_not_finite_are_one_line(folder):
    def spoil(state):
        next(iter(state["parts"]["learner"]["networks"].values())).fill_(float("nan"))

    change_state(folder, spoil)
    code, text = call("evaluate", folder)
    assert code == 2
    assert "weights that are not finite" in text


def test_a_block_that_would_grow_is_refused(folder):
    """61 kB that unpack to gigabytes: the size in the frame does not fit the configuration."""
    forge_blocks(folder, grown)
    code, text = call("resume", folder, "--frames", 900)
    assert code == 2, text
    assert "does not fit the run" in text


def grown(message: bytes) -> bytes:
    """Return a block whose observations unpack to a quarter of a gigabyte."""
    block = Block.from_bytes(message)
    return replace(block, observations=packed_zeros(), is_compressed=True).to_bytes()


@functools.cache
def packed_zeros() -> bytes:
    return zstandard.ZstdCompressor().compress(bytes(1 << 28))


def test_a_record_longer_than_its_file_is_refused(folder):
    forge_blocks(folder, lambda message: message, size=1 << 50)
    code, text = call("resume", folder, "--frames", 900)
    assert code == 2, text
    assert "records that do not fit" in text


def forge_blocks(folder: Path, change, size: int | None = None) -> None:
    """Change every block of the newest checkpoint, and write valid checksums."""
    store = CheckpointStore(folder / "checkpoints", keep=2)
    checkpoint = store.load()
    path = folder / "checkpoints" / f"{checkpoint.name}.json"
    manifest = read_manifest(path)
    for segment in manifest["segments"]:
        file = folder / "checkpoints" / segment["file"]
        content, forged = file.read_bytes(), b""
        while content:
            key, length = struct.unpack_from("<qQ", content)
            message = change(content[16 : 16 + length])
            forged += struct.pack("<qQ", key, size or len(message)) + message
            content = content[16 + length :]
        file.write_bytes(forged)
        reseal(segment, file)
    write_manifest(path, {k: v for k, v in manifest.items() if k != "format"})
    for other in (folder / "checkpoints").glob("*.json"):
        if other != path:
            other.unlink()


def test_pruning_leaves_foreign_files_alone(folder):
    names = ("000000000001.notes", "000000000001_backup.state", "x.partial", "20260101120000.txt")
    for name in names:
        (folder / "checkpoints" / name).write_text("mine")
    assert call("resume", folder, "--frames", 900)[0] == 0
    for name in names:
        assert (folder / "checkpoints" / name).read_text() == "mine"
