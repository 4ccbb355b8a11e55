"""A small trained run, shared by tests of evaluation, export and reports."""

import atexit
import functools
import io
import shutil
import tempfile
from pathlib import Path

from rich.console import Console

from agent57.cli import run

TINY = [
    *("--scale", "tiny", "--run.threads", "1", "--run.log-frames", "200", "--actor.lanes", "4"),
    *("--replay.min-windows", "4", "--learner.batch_size", "4", "--sequence.trace_length", "8"),
    *(
        "--sequence.replay_period",
        "4",
        "--network.state_size",
        "16",
        "--network.feature_size",
        "16",
    ),
    *("--network.head_size", "16", "--curiosity.warmup-steps", "20"),
]


def call(*args: object) -> tuple[int, str]:
    """Run a command; return its exit code and everything it printed."""
    text = io.StringIO()
    console = Console(file=text, width=120)
    code = run([str(arg) for arg in args], console, console)
    return code, text.getvalue()


@functools.cache
def trained_run(env: str = "toy/chain", agent: str = "agent57", frames: int = 600) -> Path:
    """Return the folder of a run, which is trained once."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    options = ("--env", env, "--agent", agent, "--frames", frames, "--out", folder / "run")
    if agent == "r2d2":
        options = (*options, "--sequence.burn-in", "4")
    code, text = call("train", *options, *TINY)
    assert code == 0, text
    return folder / "run"
