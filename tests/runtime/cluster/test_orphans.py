"""By contract: guarded processes end if their guardian is killed, and only then."""

import signal
import subprocess
import sys

import pytest

GUARDIAN = """
import os, subprocess, sys
from agent57.runtime.cluster.orphans import ended_with_this_process
with ended_with_this_process([int(sys.argv[1])]):
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), 9)
"""


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


@pytest.mark.parametrize(("end", "code"), [("killed", -signal.SIGKILL), ("whole", 0)])
def test_the_guarded_end_with_a_process_that_is_killed(end: str, code: int) -> None:
    with sleeper() as guarded, sleeper() as other:
        try:
            command = [sys.executable, "-c", GUARDIAN, str(guarded.pid), end]
            assert subprocess.run(command).returncode == code
            if end == "killed":
                assert guarded.wait(60) == -signal.SIGKILL
            else:
                with pytest.raises(subprocess.TimeoutExpired):
                    guarded.wait(0.5)
            assert other.poll() is None
        finally:
            guarded.kill()
            other.kill()
