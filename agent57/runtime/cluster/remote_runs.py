"""Whole runs on the machines of a Ray cluster, with the interface of `subprocess.Popen`.

Each run is a command in its own process, on a machine with enough free cores. All machines must see
the folder of the runs under the same path.
"""

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agent57.config import Config, ConfigError
from agent57.runtime.cluster.calls import LEAST_STORE_BYTES, Calls, Process, connected, num_cores
from agent57.runtime.cluster.totals import UNANSWERED

_PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when its parent dies


class CommandWorker:
    """Holds one command on some machine."""

    def start(self, command: list[str], log: str) -> None:
        """Start the command with this machine's Python; its output goes to the end of `log`."""
        if not Path(log).parent.is_dir():
            raise ConfigError(
                f"{Path(log).parent} is not there on every machine: runs of a suite on a cluster "
                f"need a folder that all machines share, see --out"
            )
        with Path(log).open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_the_parent,
            )

    def poll(self) -> int | None:
        """Return the exit code; None while the command runs."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask the command to save itself and end."""
        self._process.terminate()


def _die_with_the_parent() -> None:
    """Make this run save itself and end when the process that started it dies."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class RemoteRun:
    """One command on a cluster, with those methods of `subprocess.Popen` that a queue uses."""

    def __init__(self, calls: Calls, command: list[str], log: Path, num_cores: float) -> None:
        self._calls = calls
        self._worker: Process = calls.spawn(CommandWorker, cpus=num_cores, anywhere=True)
        self._started = self._worker.start.remote(command, str(log.resolve()))
        self._is_started = False
        self.returncode: int | None = None
        self.is_lost = False  # whether its machine was lost: the run may go on elsewhere

    def poll(self) -> int | None:
        """Return the exit code; None while the command waits for a machine or runs."""
        if self.returncode is None and (self._is_started or self._calls.is_there(self._started)):
            try:
                if not self._is_started:
                    self._calls.answer(self._started)
                    self._is_started = True
                self.returncode = self._calls.answer(self._worker.poll.remote())
            except UNANSWERED:
                self.is_lost, self.returncode = True, -signal.SIGKILL
            if self.returncode is not None:
                self._calls.end(self._worker)  # its cores are free for the next run
        return self.returncode

    def terminate(self) -> None:
        """Ask the command to save itself and end; a command that still waits is not started."""
        if not self._is_started and not self._calls.is_there(self._started):
            self._calls.end(self._worker)
            self.returncode = -signal.SIGTERM
        elif self.poll() is None:
            self._worker.terminate.remote()

    def wait(self) -> int:
        """Wait for the end of the command."""
        while self.poll() is None:
            self._calls.pause()
        assert self.returncode is not None
        return self.returncode


class RemoteMachines:
    """The machines of a Ray cluster, for runs that need `threads` cores each."""

    def __init__(self, calls: Calls, threads: int) -> None:
        self._calls = calls
        self.num_threads = threads
        self.num_parallel = max(1, int(num_cores() / threads))

    def launch(self, command: list[str], log: Path) -> RemoteRun:
        """Start a command as soon as a machine has the cores."""
        return RemoteRun(self._calls, command, log, self.num_threads)


@contextmanager
def remote_machines(config: Config, address: str, threads: int) -> Iterator[RemoteMachines]:
    """Join the Ray at `address`, or start one on this machine."""
    alone = replace(config, cluster=replace(config.cluster, actors=1))
    with connected(alone, address, LEAST_STORE_BYTES):
        yield RemoteMachines(Calls(), threads)
