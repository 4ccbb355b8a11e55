"""A queue of runs: all runs reach their end, and an interruption lets them save themselves."""

import contextlib
import io
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from agent57.commands.queue_view import QueueView
from agent57.config import ConfigError, EnvConfig
from agent57.defaults import default_config
from agent57.experiments.jobs import (
    MAX_LOSSES,
    Job,
    JobQueue,
    Running,
    launch_here,
    share_cores,
    with_threads,
)
from agent57.runtime.run import RunFailed
from agent57.storage.folder import RunFolder, read_config
from agent57.storage.manifest import write_manifest
from tests.experiments.made_up import manifest
from tests.runtime.runs import interrupted_when

# A program in place of a run, which waits half way until it is told to stop.
WAITING = """
import json, pathlib, signal, sys
folder = pathlib.Path(sys.argv[1])
def save(*_):
    (folder / "saved").touch()
    sys.exit()
signal.signal(signal.SIGTERM, save)
folder.mkdir()
(folder / "metrics.jsonl").write_text(json.dumps({"frames": 100}))
signal.pause()
"""


def job(folder: Path, name: str, seed: int = 0, frames: int = 200) -> Job:
    config = default_config("toy/bandit", "agent57", "tiny")
    run = replace(config.run, frames=frames, seed=seed, threads=1, log_frames=200)
    return Job(name=name, folder=folder / name, config=replace(config, run=run))


def queue(jobs: list[Job]) -> JobQueue:
    return JobQueue(jobs, num_parallel=2)


def test_all_jobs_end_and_are_not_run_again(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "a"), job(tmp_path, "b", seed=1)]
    queue(jobs).run()
    assert all(j.is_finished for j in jobs)
    assert [j.frames_done() for j in jobs] == [200, 200]
    before = [(j.folder / "metrics.jsonl").stat().st_mtime_ns for j in jobs]
    queue(jobs).run()
    assert [(j.folder / "metrics.jsonl").stat().st_mtime_ns for j in jobs] == before


def test_a_damaged_marker_of_the_end_counts_as_none(tmp_path: Path) -> None:
    made = job(tmp_path, "a")
    made.folder.mkdir()
    assert not made.is_finished
    for content, is_finished in ((b"200", True), (b"199", False), (b"a \xff", False)):
        (made.folder / "finished").write_bytes(content)
        assert made.is_finished == is_finished


def test_a_failure_names_the_job_and_the_reason(tmp_path: Path) -> None:
    broken = job(tmp_path, "broken")
    broken = replace(broken, config=replace(broken.config, env=EnvConfig(name="toy/none")))
    with pytest.raises(RunFailed, match=r"broken failed: agent57: env.name 'toy/none'"):
        queue([broken]).run()


def test_a_run_has_the_settings_of_its_job(tmp_path: Path) -> None:
    one = job(tmp_path, "one", seed=3)
    queue([one]).run()
    assert read_config(one.folder) == one.config


def test_a_run_goes_on_in_the_precision_that_it_settled(tmp_path: Path) -> None:
    one = job(tmp_path, "one")
    RunFolder.create(one.folder, one.config).close()
    assert one.config.learner.precision == "float32"
    for precision, is_refused in (("auto", False), ("bfloat16", True)):
        learner = replace(one.config.learner, precision=precision)
        other = replace(one, config=replace(one.config, learner=learner))
        with pytest.raises(ConfigError) if is_refused else contextlib.nullcontext():
            other.check_begun()


def test_a_run_begun_with_other_settings_is_refused_by_name(tmp_path: Path) -> None:
    one = job(tmp_path, "one")
    one.check_begun()  # its folder does not exist yet
    RunFolder.create(one.folder, one.config).close()
    replace(one, config=with_threads(job(tmp_path, "one", frames=900).config, 4)).check_begun()
    with pytest.raises(ConfigError, match=r"one was begun with other settings \(run.seed 0, now 5"):
        job(tmp_path, "one", seed=5).check_begun()


def test_raised_frames_make_a_finished_run_go_on(tmp_path: Path) -> None:
    short, longer = job(tmp_path, "a", frames=100), job(tmp_path, "a", frames=200)
    (short.folder / "checkpoints").mkdir(parents=True)
    (short.folder / "checkpoints" / "1.json").touch()
    (short.folder / "config.json").write_text('{"run": {"frames": 100}}')
    (short.folder / "finished").write_text("100")
    assert short.is_finished
    assert not longer.is_finished
    assert longer.command()[-3:] == ["--frames", "200", str(longer.folder)]


@pytest.mark.parametrize(
    ("asked", "runs", "shared"), [(0, 6, (8, 1)), (4, 6, (4, 2)), (4, 2, (4, 4)), (16, 16, (16, 1))]
)
def test_cores_are_shared_out(
    asked: int, runs: int, shared: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert share_cores(asked, runs) == shared


def test_a_job_that_began_is_resumed_and_one_without_checkpoint_starts_anew(tmp_path: Path) -> None:
    begun = job(tmp_path, "begun")
    (begun.folder / "checkpoints").mkdir(parents=True)
    (begun.folder / "config.json").touch()
    assert "train" in begun.command()
    assert not begun.folder.exists()
    (begun.folder / "checkpoints").mkdir(parents=True)
    (begun.folder / "checkpoints" / "000000000001-000000000001.json").touch()
    assert begun.command()[-3:] == ["resume", "--trust", str(begun.folder)]


@pytest.mark.parametrize(("frames", "is_finished"), [(200, True), (199, False), (None, False)])
def test_a_job_is_finished_by_the_frames_of_its_checkpoint_whatever_it_says(
    frames: int | None, is_finished: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = job(tmp_path, "one")
    (one.folder / "checkpoints").mkdir(parents=True)
    if frames is not None:
        file = one.folder / "checkpoints" / "000000000001.json"
        write_manifest(file, manifest(frames))
    says = "stopped after" if is_finished else "finished after"
    command = [sys.executable, "-c", f"print('{says} 200 frames')"]
    monkeypatch.setattr(Job, "command", lambda _: command)
    jobs = queue([one])
    jobs.keep_going = True
    jobs.run()
    assert one.is_finished == is_finished
    assert ["told to stop" in failure for failure in jobs.failures] == [True] * (not is_finished)


@pytest.mark.parametrize(("is_terminal", "max_rows"), [(True, 4), (True, 3), (False, 4)])
def test_an_interrupted_queue_showed_how_far_it_was_and_let_its_jobs_save_themselves(
    is_terminal: bool, max_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent57.experiments.jobs.POLL_SECONDS", 0.02)
    for name, value in {"LINE_SECONDS": 0.0, "MAX_ROWS": max_rows}.items():
        monkeypatch.setattr(f"agent57.commands.queue_view.{name}", value)
    monkeypatch.setattr(
        Job, "command", lambda self: [sys.executable, "-c", WAITING, str(self.folder)]
    )
    done, *begun, later = (job(tmp_path, name) for name in ("done", "one", "two", "later"))
    done.folder.mkdir()
    (done.folder / "finished").write_text("200")
    (done.folder / "metrics.jsonl").write_text('{"frames": 200}')

    text, handler = io.StringIO(), signal.getsignal(signal.SIGTERM)
    console = Console(file=text, force_terminal=is_terminal, color_system=None, width=100)
    half = "50%, 1 of 4 runs finished, time left 0 min"

    def shown() -> str:
        return " ".join(text.getvalue().split())

    with (
        interrupted_when(lambda: half in shown()),
        pytest.raises(KeyboardInterrupt),
        QueueView(console) as view,
    ):
        JobQueue([done, *begun, later], 2, view.show).run()

    assert signal.getsignal(signal.SIGTERM) == handler
    assert all((each.folder / "saved").exists() for each in begun)
    assert not later.folder.exists()
    rows = re.findall(r"(\w+) │ (\w+) │ (\d+) / 200", shown().rpartition(half)[2])
    running = [("one", "running", "100"), ("two", "running", "100")]
    everyone = [("done", "finished", "200"), *running, ("later", "waiting", "0")]
    assert rows == ({3: running, 4: everyone}[max_rows] if is_terminal else [])


class Lost:
    """A run whose machine died."""

    returncode, is_lost = -9, True

    def poll(self) -> int:
        return self.returncode

    def terminate(self) -> None:
        pass

    def wait(self) -> int:
        return self.returncode


def test_a_run_that_is_lost_with_its_machine_goes_on_elsewhere(tmp_path: Path) -> None:
    launched: list[list[str]] = []

    def launch(command: list[str], log: Path) -> Running:
        launched.append(command)
        return Lost() if len(launched) < 3 else launch_here(command, log)

    only = job(tmp_path, "a")
    JobQueue([only], num_parallel=1, launch=launch).run()
    assert only.is_finished
    assert len(launched) == 3


def test_a_run_that_is_lost_again_and_again_fails(tmp_path: Path) -> None:
    launched: list[list[str]] = []

    def launch(command: list[str], log: Path) -> Running:
        launched.append(command)
        log.touch()
        return Lost()

    with pytest.raises(RunFailed, match="a failed"):
        JobQueue([job(tmp_path, "a")], num_parallel=1, launch=launch).run()
    assert len(launched) == MAX_LOSSES + 1
