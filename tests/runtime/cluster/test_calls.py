"""The cluster on Ray itself: real processes that are really killed."""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from agent57.config import ConfigError
from agent57.envs.spec import EnvironmentFault
from agent57.learner import NonFiniteUpdate
from agent57.presets import make_config
from agent57.replay.block import Block
from agent57.runtime import run
from agent57.runtime.cluster import calls as calls_module
from agent57.runtime.cluster import conductor
from agent57.runtime.cluster.calls import Calls, check_resources, keep_token_private
from agent57.runtime.cluster.conductor import Cluster
from agent57.runtime.cluster.orphans import agents_of
from agent57.runtime.cluster.totals import Died
from agent57.runtime.cluster.workers import ActorWorker, arrays_of
from agent57.runtime.session import Session
from agent57.storage.checkpoint import CheckpointStore
from agent57.storage.folder import CONFIG_FILE, read_config
from agent57.trained.trained_run import TrainedRun
from tests.runtime.cluster.test_conductor import CONFIG, cluster_config
from tests.runtime.cluster.test_workers import CONFIG as PLAYED
from tests.runtime.cluster.test_workers import LAYOUT, WEIGHTS, play_inline
from tests.runtime.runs import lines, resume, train
from tests.small import changed, random_batch, small_config

pytestmark = pytest.mark.usefixtures("on_ray")


def pid_of(process: Any) -> int:
    """Return the process id of a worker."""
    return ray.get(process.__ray_call__.remote(lambda worker: os.getpid()))


def kill(process: Any) -> None:
    os.kill(pid_of(process), signal.SIGKILL)


def when(steps: dict[int, Callable[[Cluster], None]], patch: pytest.MonkeyPatch) -> None:
    """Call functions on a run when it reaches given numbers of steps."""

    class Eventful(Session):
        def tick(self, parts: Any) -> None:
            super().tick(parts)
            for step in [step for step in steps if parts.totals.steps >= step]:
                steps.pop(step)(parts)

    patch.setattr(run, "Session", Eventful)


def test_blocks_that_came_over_ray_are_those_of_inline_byte_for_byte() -> None:
    calls = Calls()
    one = changed(PLAYED, cluster={"actors": 1})
    actor = calls.spawn(ActorWorker, one, 0, LAYOUT, cpus=1, anywhere=True)
    calls.answer(actor.start.remote(None, None))
    weights = ray.put(arrays_of(WEIGHTS))
    sent = []
    for _ in range(3):
        blocks, report = actor.play.options(num_returns=2).remote(weights, 7)
        assert calls.answer(report).steps == 40
        sent += calls.answer(blocks)
    assert [b.to_bytes() for b in sent] == [b.to_bytes() for b in play_inline(30)]
    kill(actor)
    with pytest.raises(Died):
        calls.answer(actor.play.remote(weights, 7))
    assert len(calls.answer(blocks)) > 0  # blocks outlive the actor that sent them


def test_a_run_outlives_each_of_its_processes_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the aim and the frames of tests/learning/test_toys.py.
    settings = {"frames": 10_000, "runtime": "cluster", "checkpoint_seconds": 1.0}
    config = changed(
        make_config("agent57", "tiny"),
        env={"name": "toy/cue"},
        run={**settings, "log_frames": 1000},
        cluster={"actors": 2, "shards": 2},
    )
    when(
        {
            1000: lambda parts: kill(parts.players.actors[1].process),
            2000: lambda parts: kill(parts.players.processes()[-1]),
            3000: lambda parts: kill(parts.shards.processes()[0]),
            4000: lambda parts: kill(parts.learners.processes()[0]),
        },
        monkeypatch,
    )
    said = train(config, tmp_path / "run")
    metrics = lines(tmp_path / "run", "metrics.jsonl")
    last = metrics[-1]
    assert last["cluster/actor_restarts"] == 1
    assert last["cluster/evaluator_restarts"] == 1
    assert last["cluster/shard_restarts"] == 1
    assert last["cluster/learner_restarts"] == 1
    assert "replay shard 0 died and is back as of the last checkpoint" in said
    assert "the learner died and is back as of the last checkpoint" in said
    assert last["frames"] == 10_000
    ratio = config.replay.samples_per_insert
    assert last["cluster/samples_per_insert"] == pytest.approx(ratio, rel=0.1)
    assert {"cluster/frames_per_second/1", "cluster/weights_age/1"} <= last.keys()
    episodes = lines(tmp_path / "run", "episodes.jsonl")
    assert {e["lane"] for e in episodes} == set(range(config.actor.lanes))
    scores = [e["return"] for e in episodes if e["phase"] == "evaluate"]
    assert abs(np.mean(scores[:10])) < 0.7  # it had to be learned
    assert np.mean(scores[-15:]) >= 0.95
    assert TrainedRun.load(tmp_path / "run").counters["frames"] == 10_000

    # The run also resumes with two learners that act as one, and nothing is counted twice.
    text = (tmp_path / "run" / CONFIG_FILE).read_text()
    (tmp_path / "run" / CONFIG_FILE).write_text(text.replace('"learners": 1', '"learners": 2'))
    assert "finished after 10,400 frames" in resume(tmp_path / "run", 10_400)
    assert read_config(tmp_path / "run").cluster.learners == 2
    metrics = lines(tmp_path / "run", "metrics.jsonl")
    frames = [row["frames"] for row in metrics]
    assert frames == sorted(set(frames))
    assert frames[-1] == 10_400
    assert metrics[-1]["updates"] > last["updates"] + 10


def test_a_run_outlives_processes_that_hang_and_stops_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "STOP_SECONDS", 3.0)
    config = cluster_config(run={"frames": 10**6, "log_frames": 100, "checkpoint_seconds": 2.0})
    hung: list[int] = []

    def hang(parts: Cluster, player: int, limit_seconds: float) -> None:
        parts.calls.limit_seconds = limit_seconds
        hung.append(pid_of(parts.players.processes()[player]))
        os.kill(hung[-1], signal.SIGSTOP)

    def hang_and_stop(parts: Cluster) -> None:
        if parts.totals.actor_restarts == 0:  # the other actor has played on meanwhile
            events[parts.totals.steps + 1] = hang_and_stop
            return
        hang(parts, 0, 600.0)
        hang(parts, -1, 600.0)  # the evaluator
        os.kill(os.getpid(), signal.SIGTERM)

    events = {150: lambda parts: hang(parts, 1, 4.0), 600: hang_and_stop}
    when(events, monkeypatch)
    try:
        said = train(config, tmp_path / "run")
    finally:
        for pid in hung:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert "actor 1 has not answered for 4 s and counts as dead" in said
    assert "actor 0 has not answered for 3 s" in said
    assert "the evaluator has not answered for 3 s" in said
    assert "stopped after" in said
    assert TrainedRun.load(tmp_path / "run").counters["frames"] >= 600
    state = CheckpointStore(tmp_path / "run" / "checkpoints", keep=2).load()
    assert state is not None
    totals = state.state["parts"]["tally"]
    held = sum(Block.from_bytes(block).length for _, block in state.blocks)
    waiting = sum(actor["waiting"] for actor in state.state["parts"]["actors"])
    assert held + waiting + totals["lost_transitions"] == totals["steps"]  # each step counts once
    assert state.state["parts"]["evaluator"] is None
    frames = state.state["counters"]["frames"] + 200
    monkeypatch.undo()
    file = tmp_path / "run" / CONFIG_FILE
    file.write_text(file.read_text().replace(f'"frames": {10**6}', f'"frames": {frames}'))
    assert "finished after" in resume(tmp_path / "run")


def test_the_token_of_ray_is_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    keep_token_private()
    file = tmp_path / ".ray" / "auth_token"
    token = file.read_text()
    assert len(token) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    keep_token_private()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == token


def test_what_a_part_raises_arrives_as_it_is() -> None:
    calls, batch = Calls(), random_batch(small_config())

    class Broken:
        def start(self) -> None:
            raise EnvironmentFault("lane 3 of walk: it broke")

        def update(self) -> None:
            raise NonFiniteUpdate("the loss", batch)

    process = calls.spawn(Broken)
    with pytest.raises(EnvironmentFault, match="^lane 3 of walk: it broke$"):
        calls.answer(process.start.remote())
    with pytest.raises(NonFiniteUpdate, match="^the loss is not finite$") as caught:
        calls.answer(process.update.remote())
    assert len(caught.value.batch.key) == len(batch.key)


def test_only_loopback_and_only_with_a_token_reaches_a_ray_of_our_own() -> None:
    calls = Calls()
    calls.answer(calls.spawn(ActorWorker, PLAYED, 0, LAYOUT).start.remote(None, None))
    addresses = listening(family(os.getpid()))
    assert len(addresses) > 5
    assert {a for a in addresses if a not in LOOPBACK} == set()
    assert os.environ["RAY_AUTH_MODE"] == "token"


LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def family(root: int) -> set[int]:
    """Return a process and all its descendants."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found, size = {root}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def listening(pids: set[int]) -> list[str]:
    """Return the addresses, in hexadecimal, at which some processes listen."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    inodes.add(str(handle.readlink()))
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    is_listening = "0A"
    return [
        r[1].split(":")[0] for r in rows if r[3] == is_listening and f"socket:[{r[9]}]" in inodes
    ]


def test_the_agents_of_a_ray_of_our_own_are_guarded() -> None:
    raylet = calls_module.own_processes()["raylet"].pid
    agents = agents_of(raylet)
    assert len(agents) == 2  # for the dashboard and for environments of workers
    commands = [Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in family(os.getpid())]
    guarded = {int(pid) for words in commands if "agent57-orphans" in words for pid in words[4:-1]}
    assert guarded == set(agents)


def test_room_for_actors_is_looked_at() -> None:
    assert check_resources(CONFIG, 0) is None
    many = changed(CONFIG, cluster={"actors": 2, "actor_cpus": 500.0})
    assert "room for 0 of 2 actors" in (check_resources(many, 0) or "")
    with pytest.raises(ConfigError, match="the learners need 1 GPUs, Ray has 0"):
        check_resources(CONFIG, 1)


def test_a_ray_without_room_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor, "check_resources", lambda config, _: check_resources(config, 1))
    with pytest.raises(ConfigError, match="the learners need 1 GPUs, Ray has 0"):
        train(CONFIG, tmp_path / "run")
    assert not list(tmp_path.iterdir())
