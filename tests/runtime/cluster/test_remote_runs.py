"""Commands on a cluster: they end, are told to end, or are lost with their machine."""

import sys
import time
from pathlib import Path

import pytest

from agent57.config import ConfigError
from agent57.runtime.cluster.remote_runs import CommandWorker, RemoteRun
from tests.runtime.cluster.stage import Answer, FakeCalls

WAITING = """
import pathlib, signal, sys
def save(*_):
    print("saved", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
signal.pause()
"""


class OneMachine(FakeCalls):
    """A cluster without Ray that has room for one command, or for none."""

    has_room = True

    def is_there(self, ref: Answer) -> bool:
        return self.has_room

    def pause(self) -> None:
        time.sleep(0.01)


def command(code: str) -> list[str]:
    return ["python-of-another-machine", "-c", code]


def begun(log: Path) -> bool:
    return log.exists() and "begun" in log.read_text()


def test_a_command_runs_to_its_end_with_its_machines_python(tmp_path: Path) -> None:
    calls, log = OneMachine(), tmp_path / "log.txt"
    log.write_text("before\n")
    run = RemoteRun(calls, command("import sys; print(sys.executable); sys.exit(5)"), log, 1)
    assert run.wait() == 5
    assert run.returncode == 5
    assert not run.is_lost
    assert log.read_text() == f"before\n{sys.executable}\n"
    assert not calls.living(CommandWorker)  # its cores are free


def test_a_command_is_asked_to_save_itself(tmp_path: Path) -> None:
    calls, log = OneMachine(), tmp_path / "log.txt"
    run = RemoteRun(calls, command(WAITING), log, 1)
    while not begun(log):
        assert run.poll() is None
        calls.pause()
    run.terminate()
    assert calls.processes[0].calls[-1].name == "terminate"
    calls.processes[0].calls[-1].do()  # Ray would do the call by itself
    assert run.wait() == 3
    assert log.read_text().endswith("saved\n")


def test_a_command_without_a_place_waits_and_may_be_called_off(tmp_path: Path) -> None:
    calls = OneMachine()
    calls.has_room = False
    run = RemoteRun(calls, command("pass"), tmp_path / "log.txt", 1)
    assert run.poll() is None
    run.terminate()
    assert run.wait() != 0
    assert not calls.living(CommandWorker)
    assert not (tmp_path / "log.txt").exists()


def test_a_machine_that_dies_takes_its_command_along(tmp_path: Path) -> None:
    calls, log = OneMachine(), tmp_path / "log.txt"
    run = RemoteRun(calls, command(WAITING), log, 1)
    assert run.poll() is None
    worker = calls.processes[0].worker
    calls.processes[0].is_dead = True
    assert run.poll() is not None
    assert run.is_lost
    worker.terminate()


def test_a_folder_that_is_not_shared_is_one_line(tmp_path: Path) -> None:
    run = RemoteRun(OneMachine(), command("pass"), tmp_path / "elsewhere" / "log.txt", 1)
    with pytest.raises(ConfigError, match="all machines share"):
        run.poll()
