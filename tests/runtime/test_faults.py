"""A run survives faults of machines: kills at any moment, flipped bits, full and read-only disks.

Training processes are forked from a server that has imported everything, so that each process takes
tenths of a second. The slow test uses the command line itself.
"""

import contextlib
import io
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from agent57.config import Config, ConfigError
from agent57.runtime import run
from agent57.storage.checkpoint import CheckpointStore
from tests.runtime.runs import difference, live, result, run_config, train

CONFIG = run_config(
    "toy/cue", 600, run={"checkpoint_seconds": 0.02, "log_frames": 150, "checkpoints_kept": 3}
)


def work(path: Path, config: Config) -> None:
    """Begin the run or resume it, in a training process."""
    console = Console(file=io.StringIO())
    torch.set_num_threads(1)
    if (path / "config.json").exists():
        run.resume(path, None, console)
    else:
        run.start(config, path, console)


def forked(path: Path) -> multiprocessing.Process:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "torch._dynamo"])  # an optimiser imports it
    process = context.Process(target=work, args=(path, CONFIG))
    process.start()
    return process


def newest(path: Path) -> str:
    return max((file.name for file in path.glob("checkpoints/*.json")), default="")


def wait_for_progress(path: Path, is_alive) -> None:
    """Wait until a checkpoint is committed, so that a run that is killed often makes progress."""
    before = newest(path)
    while is_alive() and newest(path) == before:
        time.sleep(0.01)


def test_a_run_killed_at_random_moments_ends_the_same(tmp_path):
    rng = random.Random(0)
    reference = forked(tmp_path / "whole")
    reference.join()
    assert reference.exitcode == 0
    num_kills = 0
    for life in range(100):
        process = forked(tmp_path / "run")
        if num_kills < 4:
            if life % 4:
                wait_for_progress(tmp_path / "run", process.is_alive)
            time.sleep(rng.uniform(0.0, 0.3))
            process.kill()
        process.join()
        num_kills += process.exitcode == -signal.SIGKILL
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    assert num_kills >= 3
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "run"))


@pytest.mark.slow
def test_twenty_kills_of_the_command_line_change_nothing(tmp_path):
    rng = random.Random(1)
    options = [
        "train", "--env", "toy/cue", "--scale", "tiny", "--frames", "16000", "--run.threads", "1",
        "--run.log_frames", "1000", "--run.checkpoint_seconds", "0.5",
        "--replay.min_windows", "20", "--out",
    ]  # fmt: skip

    def start(*arguments: str | Path) -> subprocess.Popen:
        command = [sys.executable, "-m", "agent57", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    assert start(*options, tmp_path / "whole").wait() == 0
    kills = []
    while True:
        path = tmp_path / "run"
        is_begun = (path / "config.json").exists()
        process = start("resume", path) if is_begun else start(*options, path)
        if len(kills) < 22:
            if len(kills) % 5:
                wait_for_progress(path, lambda process=process: process.poll() is None)
            time.sleep(rng.uniform(0.0, 1.0))
            process.kill()
            kills.append(newest(path))
        code = process.wait()
        if code == 0:
            break
        assert code == -signal.SIGKILL
    print(f"{len(kills)} kills, at checkpoints {kills}")  # noqa: T201
    assert len(kills) >= 20
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "run"))


@pytest.fixture(scope="module")
def small_run(tmp_path_factory) -> Path:
    """Train a run with three checkpoints, each with its own blocks."""
    path = tmp_path_factory.mktemp("flips") / "run"
    train(run_config("toy/cue", 30), path)
    for frames in (60, 90):
        run.resume(path, frames, Console(file=io.StringIO()))
    return path


def loaded(folder: Path):
    checkpoint = CheckpointStore(folder, keep=3).load()
    assert checkpoint is not None
    return checkpoint


def test_no_flipped_bit_goes_unnoticed(small_run):
    folder = small_run / "checkpoints"
    files = sorted(folder.iterdir())
    names = sorted({file.stem for file in files if file.suffix == ".json"})
    # The content of each checkpoint, newest first, read after newer ones were removed.
    whole = {}
    for name in reversed(names):
        checkpoint = loaded(folder)
        assert checkpoint.name == name
        whole[name] = (checkpoint.state, live(checkpoint))
        (folder / f"{name}.json").rename(folder / f"{name}.aside")
    for name in names:
        (folder / f"{name}.aside").rename(folder / f"{name}.json")

    rng = random.Random(0)
    sizes = [file.stat().st_size for file in files]
    outcomes = {"unharmed": 0, "one before": 0, "fewer blocks": 0}
    for trial in range(120):
        # Choose by bytes at first, then by file, because manifests are small.
        file = rng.choices(files, sizes)[0] if trial % 2 else files[trial // 2 % len(files)]
        position, bit = rng.randrange(file.stat().st_size), 1 << rng.randrange(8)
        with flipped(file, position, bit):
            checkpoint = loaded(folder)
            state, blocks = whole[checkpoint.name]
            assert not difference(state, checkpoint.state)
            assert live(checkpoint) == [b for b in blocks if b[0] >= checkpoint.first_block]
            if checkpoint.first_block:
                outcome = "fewer blocks"
            else:
                outcome = "unharmed" if checkpoint.name == names[-1] else "one before"
            assert (outcome == "unharmed") == (not checkpoint.damaged)
            assert outcome == "unharmed" or file.name in checkpoint.damaged[0]
            outcomes[outcome] += 1
    assert sum(outcomes.values()) == 120
    assert min(outcomes.values()) > 6, outcomes


@contextlib.contextmanager
def flipped(file: Path, position: int, bit: int):
    def flip() -> None:
        with file.open("r+b") as opened:
            opened.seek(position)
            byte = opened.read(1)[0]
            opened.seek(position)
            opened.write(bytes([byte ^ bit]))

    flip()
    try:
        yield
    finally:
        flip()


@pytest.fixture
def small_disk(tmp_path):
    """Mount a small file system; also give a function that remounts it with other options."""
    path = tmp_path / "disk"
    path.mkdir()

    def mount(options: str) -> bool:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]
        return subprocess.run(command, capture_output=True).returncode == 0

    if os.geteuid() or not mount("size=2m"):
        pytest.skip("needs the right to mount")
    yield path, mount
    subprocess.run(["umount", path], check=True)


def test_a_full_disk_is_said_and_the_run_goes_on_once_there_is_room(small_disk, tmp_path):
    path, mount = small_disk
    train(run_config("toy/cue", 120), tmp_path / "whole")
    config = run_config("toy/cue", 120, run={"checkpoint_seconds": 1e-4})
    ballast = path / "ballast"
    ballast.write_bytes(bytes(1_500_000))
    said = io.StringIO()
    with pytest.raises(run.RunFailed, match="No space left on device; make room"):
        run.start(config, path / "run", Console(file=said, width=1000))
    assert "checkpoint not written: No space left on device; training goes on" in said.getvalue()
    assert not list(path.glob("run/checkpoints/.*partial"))
    ballast.unlink()
    work(path / "run", config)
    assert not difference(result(tmp_path / "whole"), result(path / "run"))


def test_a_read_only_disk_is_one_line(small_disk):
    path, mount = small_disk
    train(run_config("toy/cue", 30), path / "run")
    assert mount("remount,ro")
    with pytest.raises(ConfigError, match="cannot be written: Read-only file system"):
        work(path / "run", CONFIG)
    with pytest.raises(ConfigError, match="cannot be written: Read-only file system"):
        work(path / "other", CONFIG)
    assert mount("remount,rw")
