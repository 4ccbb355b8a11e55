"""A suite of real runs at tiny scale, and a suite of fake runs that is interrupted."""

import itertools
import json
import os
import signal
import subprocess
import sys

import pytest

from agent57.commands.options import parse
from agent57.commands.suite import SuiteOptions, configured, num_seeds
from agent57.defaults import default_config
from agent57.experiments.jobs import Job
from agent57.experiments.suite_runs import Entry, Suite
from tests.trained_run import TINY, call

OPTIONS = [*TINY[2:], "--scale", "tiny", "--seeds", "1"]


def test_trains_scores_and_is_not_run_again(tmp_path):
    out = tmp_path / "suite"
    args = ("suite", "toy/bandit,toy/chain", "--frames", "400", "--out", out, *OPTIONS)
    code, text = call(*args)
    assert code == 0, text
    results = json.loads((out / "results.json").read_text())
    assert results["coverage"]["text"] == "complete: 2 runs"
    assert {(r["game"], r["agent"]) for r in results["scores"]} >= {("toy/bandit", "agent57")}
    assert (out / "toy-chain" / "agent57" / "seed0" / "metrics.jsonl").exists()
    assert (out / "results.csv").exists()
    assert "Suite" in (out / "report.html").read_text()
    code, text = call(*args)
    assert code == 0, text
    assert "2 runs, 2 finished already" in text


def entry(task, agent, num_seeds):
    return Entry(config=default_config(task, agent, "tiny"), num_seeds=num_seeds)


def test_every_task_is_played_by_every_agent_with_every_seed(tmp_path):
    tasks, agents = ("toy/bandit", "toy/chain"), ("agent57", "r2d2-bandit")
    entries = tuple(entry(*pair, 2) for pair in itertools.product(tasks, agents))
    jobs = Suite(name="both", scale="tiny", entries=entries).jobs(tmp_path, num_threads=1)
    assert {job.folder for job in jobs} == {
        each.folder(tmp_path, seed) for each in entries for seed in (0, 1)
    }
    assert len(jobs) == 8
    assert [job.config.run.seed for job in jobs] == [0] * 4 + [1] * 4
    assert {(job.config.env.name, job.config.run.agent) for job in jobs} == set(
        itertools.product(tasks, agents)
    )


def test_tasks_may_have_different_numbers_of_seeds(tmp_path):
    entries = (entry("toy/bandit", "agent57", 3), entry("toy/chain", "agent57", 1))
    jobs = Suite(name="uneven", scale="tiny", entries=entries).jobs(tmp_path, num_threads=1)
    assert [job.name.split()[0] for job in jobs] == [
        "toy/bandit", "toy/chain", "toy/bandit", "toy/bandit",
    ]  # fmt: skip


def test_device_and_overrides_reach_the_runs_each_in_one_process():
    args = ["x", "--scale", "tiny", "--device", "cpu", "--runtime", "cluster", "--frames", "400"]
    known = parse(SuiteOptions, "suite", args)
    config = configured(known, "toy/chain", "ngu", ["--learner.batch_size", "5"])
    assert (config.run.device, config.run.runtime, config.run.frames) == ("cpu", "inline", 400)
    assert (config.env.name, config.run.agent, config.learner.batch_size) == ("toy/chain", "ngu", 5)


STAND_IN = """
import signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from agent57.storage.manifest import write_manifest
from tests.experiments.made_up import manifest
from tests.reports.made_up_runs import write_run
folder, frames, is_slow = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "slow"
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if not folder.exists():
    write_run(folder)
    (folder / "config.json").write_text(Path(sys.argv[5]).read_text())
(folder / "checkpoints").mkdir(exist_ok=True)
file = folder / "checkpoints" / "000000000001.json"
write_manifest(file, manifest(1))
(folder / "begun").open("a").write("x")
if is_slow:
    time.sleep(60)
write_manifest(file, manifest(frames))
"""


@pytest.fixture
def stand_ins(monkeypatch):
    """Replace jobs by programs that end at once, or never if their name says so."""

    def command(job):
        speed = "slow" if "seed 1" in job.name and "SLOW" in os.environ else "fast"
        here = os.getcwd()
        words = (job.folder, job.frames, speed, here, job.settings)
        return [sys.executable, "-c", STAND_IN, *map(str, words)]

    monkeypatch.setattr(Job, "command", command)


def test_an_interruption_keeps_what_was_finished_and_says_how_partial(
    tmp_path, stand_ins, monkeypatch
):
    out = tmp_path / "suite"
    args = ("suite", "toy/chain", "--seeds", "2", "--jobs", "1", "--out", out, "--scale", "tiny")
    monkeypatch.setenv("SLOW", "1")
    begun = out / "toy-chain" / "agent57" / "seed1" / "begun"
    waiter = subprocess.Popen(
        [sys.executable, "-c", _KILL_WHEN, str(begun), str(os.getpid())],
    )
    code, text = call(*args)
    waiter.wait()
    assert code == 130, text
    results = json.loads((out / "results.json").read_text())
    assert results["coverage"]["finished"] == 1
    assert "partial: 1 of 2 runs finished" in text
    monkeypatch.delenv("SLOW")
    code, text = call(*args)
    assert code == 0, text
    assert "2 runs, 1 finished already" in text
    assert "complete: 2 runs" in text
    assert begun.read_text() == "xx"
    assert (out / "toy-chain" / "agent57" / "seed0" / "begun").read_text() == "x"


_KILL_WHEN = f"""
import os, pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
time.sleep(0.3)
os.kill(int(sys.argv[2]), {int(signal.SIGTERM)})
"""


def test_another_scale_or_other_options_need_another_folder(tmp_path, stand_ins):
    args = ("suite", "toy/chain", "--seeds", "1", "--out", tmp_path / "suite")
    assert call(*args, "--scale", "tiny")[0] == 0
    code, text = call(*args, "--scale", "laptop")
    assert code == 2
    assert "was begun with other settings" in text
    code, text = call(*args, "--scale", "tiny", "--learner.batch_size", "8")
    assert code == 2
    assert "learner.batch_size 16, now 8" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("toy/chan",), "did you mean toy/chain"),
        (("",), "name a suite"),
        (("pong", "breakout"), "separate games by commas"),
        (("pong", "--agents", "agent58"), "--agent 'agent58' is not one of"),
        (("pong", "--seeds", "0"), "--seeds must be positive"),
        (("pong", "--scale", "huge"), "--scale 'huge' is not one of"),
        (("pong", "--jobs", "-1"), "--jobs must not be negative"),
        (("pong", "--reference", "x"), "unknown reference 'x'"),
        (("pong", "--learner.batsh", "3"), "unknown option --learner.batsh"),
        (("pong,toy/chain", "--env.noop-max", "0"), "env.noop_max has no effect on toy/chain"),
        (("pong", "--run.seed", "3"), "--run.seed is settled by --seeds"),
        (("pong", "--cluster.actors", "2"), "--cluster.actors is for --runtime cluster"),
        (("pong", "--run.frames=3"), "--run.frames is settled by --frames"),
        (("pong", "--run.device", "cpu"), "--run.device is settled by --device"),
        (("pong", "--env.name", "toy/chain"), "--env.name is settled by the games of the suite"),
    ],
)
def test_bad_options_create_nothing(tmp_path, options, message):
    code, text = call("suite", *options, "--out", tmp_path / "suite")
    assert code == 2
    assert message in text
    assert not (tmp_path / "suite").exists()


@pytest.mark.parametrize(
    ("scale", "agent", "expected"),
    [("paper", "agent57", 6), ("paper", "r2d2", 3), ("laptop", "agent57", 3)],
)
def test_the_default_number_of_seeds_is_the_papers(scale: str, agent: str, expected: int) -> None:
    assert num_seeds(SuiteOptions(suite="atari57", scale=scale), agent) == expected
    assert num_seeds(SuiteOptions(suite="atari57", scale=scale, seeds=2), agent) == 2
