"""By contract: a hanging environment is named, and a run that is told to stop ends in time."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console

from agent57.envs.lanes import pending, pending_call
from agent57.runtime import run, watchdog
from agent57.runtime.watchdog import Watchdog
from tests.runtime import broken_envs
from tests.runtime.runs import difference, result, resume, run_config, train

TASK = "agent57/Broken-v0"
CONFIG = run_config(TASK, 300, run={"checkpoint_seconds": 0.01})


def work(path: Path, fault: Path, heard: Path) -> None:
    """Train with a watchdog whose limits are short; its messages go to a file."""
    os.environ[broken_envs.FAULT_FILE] = str(fault)
    watchdog.SLOW_SECONDS, watchdog.STOP_SECONDS, watchdog.END_SECONDS = 0.3, 0.3, 0.3
    torch.set_num_threads(1)
    console = Console(file=heard.open("a", buffering=1), width=1000)
    try:
        run.start(CONFIG, path, console)
    except run.RunFailed as error:
        heard.write_text(heard.read_text() + str(error))  # opened anew: it may have been closed
        watchdog.end_process()


@contextlib.contextmanager
def forked(path: Path, fault: Path, heard: Path) -> Iterator[multiprocessing.Process]:
    heard.touch()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "torch._dynamo"])
    process = context.Process(target=work, args=(path, fault, heard))
    process.start()
    try:
        wait_until(lambda: list(path.glob("checkpoints/*.json")))
        yield process
        process.join(120)
    finally:
        process.kill()
    assert process.exitcode == 1


def wait_until(is_time) -> None:
    deadline = time.monotonic() + 120
    while not is_time():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("fault", ["hang", "deaf hang"])
def test_a_hanging_environment_is_named_and_a_signal_ends_the_run(fault, tmp_path):
    train(CONFIG, tmp_path / "whole")
    file, heard, path = tmp_path / "fault", tmp_path / "heard", tmp_path / "run"
    with forked(path, file, heard) as process:
        file.write_text(fault)
        wait_until(lambda: "lane 0: step has been under way for" in heard.read_text())
        os.kill(process.pid, signal.SIGTERM)
    said = heard.read_text()
    assert "lane 0: step did not end within 0.3 s of the request to stop" in said
    assert ("swallowed" in said) == (fault == "deaf hang")
    assert f"go on from the last checkpoint with `agent57 resume {path}`" in said
    file.unlink()
    resume(path)
    assert not difference(result(tmp_path / "whole"), result(path))


def test_an_environment_that_closes_our_files_is_a_fault(tmp_path):
    file, heard, path = tmp_path / "fault", tmp_path / "heard", tmp_path / "run"
    with forked(path, file, heard):
        file.write_text("close files")
    assert "was closed by other code in this process" in heard.read_text()
    file.unlink()
    train(CONFIG, tmp_path / "whole")
    resume(path)
    assert not difference(result(tmp_path / "whole"), result(path))


def test_a_call_that_ends_in_time_is_left_alone(monkeypatch):
    monkeypatch.setattr(watchdog, "STOP_SECONDS", 5.0)
    monkeypatch.setattr(watchdog, "LOOK_SECONDS", 0.01)
    said: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with Watchdog(said.append, said.append) as watch, pending("lane 0: step"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)
            assert not watch.overdue
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not said


def test_the_innermost_call_is_the_one_under_way():
    here = threading.get_ident()
    assert pending_call(here) is None
    with pending("outer"):
        with pending("inner"):
            assert pending_call(here)[0] == "inner"
        assert pending_call(here)[0] == "outer"
    assert pending_call(here) is None
