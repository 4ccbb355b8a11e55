"""A queue of runs: all are brought to their end, and an interruption costs nothing."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from agent57.records.manifest import write_manifest
from agent57.runtime.jobs import Job, JobQueue
from agent57.runtime.run import RunFailed

TINY = ("--env", "toy/bandit", "--scale", "tiny", "--run.threads", "1", "--run.log-frames", "200")


def job(folder: Path, name: str, *options: str) -> Job:
    return Job(name=name, folder=folder / name, options=(*TINY, *options), frames=200)


def queue(jobs: list[Job]) -> JobQueue:
    return JobQueue(jobs, num_parallel=2, console=Console(file=io.StringIO()))


def test_all_jobs_end_and_are_not_run_again(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "a"), job(tmp_path, "b", "--seed", "1")]
    queue(jobs).run()
    assert all(j.is_finished for j in jobs)
    assert [j.frames_done() for j in jobs] == [200, 200]
    before = [(j.folder / "metrics.jsonl").stat().st_mtime_ns for j in jobs]
    queue(jobs).run()
    assert [(j.folder / "metrics.jsonl").stat().st_mtime_ns for j in jobs] == before


def test_a_failure_names_the_job_and_the_reason(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"broken failed: agent57: .*actor.lanes"):
        queue([job(tmp_path, "broken", "--actor.lanes", "0")]).run()


def test_a_job_that_began_is_resumed_and_one_without_checkpoint_starts_anew(tmp_path: Path) -> None:
    begun = job(tmp_path, "begun")
    (begun.folder / "checkpoints").mkdir(parents=True)
    (begun.folder / "config.json").touch()
    assert "train" in begun.command()
    assert not begun.folder.exists()
    (begun.folder / "checkpoints").mkdir(parents=True)
    (begun.folder / "checkpoints" / "000000000001-000000000001.json").touch()
    assert begun.command()[-2:] == ["resume", str(begun.folder)]


@pytest.mark.parametrize(("frames", "is_finished"), [(200, True), (199, False), (None, False)])
def test_a_job_is_finished_by_the_frames_of_its_checkpoint_whatever_it_says(
    frames: int | None, is_finished: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = job(tmp_path, "one")
    (one.folder / "checkpoints").mkdir(parents=True)
    if frames is not None:
        manifest = one.folder / "checkpoints" / "000000000001-000000000001.json"
        write_manifest(manifest, {"counters": {"frames": frames}})
    says = "stopped after" if is_finished else "finished after"
    command = [sys.executable, "-c", f"print('{says} 200 frames')"]
    monkeypatch.setattr(Job, "command", lambda _: command)
    jobs = queue([one])
    jobs.keep_going = True
    jobs.run()
    assert one.is_finished == is_finished
    assert ["told to stop" in failure for failure in jobs.failures] == [True] * (not is_finished)
