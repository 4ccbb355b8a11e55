"""By contract: a process that does not answer counts as dead, and only once."""

import time
from pathlib import Path
from typing import Any

import pytest

from agent57.config import ConfigError
from agent57.runtime.cluster import calls as module
from agent57.runtime.cluster.calls import Calls
from agent57.runtime.cluster.totals import Died, PartLost
from tests.runtime.cluster.stage import Play
from tests.runtime.cluster.test_conductor import cluster_config


class SilentRay:
    """The part of Ray that `Calls` waits with; only the answers in `ready` have come."""

    def __init__(self) -> None:
        self.ready: set[str] = set()

    def get_runtime_context(self) -> Any:
        return self

    def get_node_id(self) -> str:
        return "0" * 56

    def wait(self, refs: list[str], num_returns: int, timeout: float, **_: object) -> Any:
        found = [ref for ref in refs if ref in self.ready][:num_returns]
        if len(found) < num_returns:
            time.sleep(0.01)
        return found, [ref for ref in refs if ref not in found]

    def get(self, refs: list[str]) -> list[str]:
        return [f"answer of {ref}" for ref in refs]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> SilentRay:
    silent = SilentRay()
    monkeypatch.setattr(module, "ray", silent)
    return silent


def test_a_call_without_an_answer_counts_as_that_of_a_dead_process(ray: SilentRay) -> None:
    said: list[str] = []
    heard: list[str] = []
    calls = Calls(0.1, said.append)

    def act(ref: str) -> None:
        try:
            heard.append(calls.answer(ref))
        except Died:
            heard.append(f"{ref} died")

    calls.expect("hung", act, "actor 1")
    calls.expect("waiting", act, "actor 2", is_patient=True)
    ray.ready = {"quick"}
    while "hung died" not in heard:  # others keep answering meanwhile
        calls.expect("quick", act, "actor 0")
        calls.take_in()
    assert set(heard) == {"answer of quick", "hung died"}
    assert [text for text in said if "actor 1" in text] == [
        "actor 1 has not answered for 0.1 s and counts as dead: "
        "raise cluster.answer_seconds if it is only slow"
    ]
    ray.ready = {"hung", "waiting"}  # late answers are dropped, answers of patient calls are not
    calls.settle(patience=0.1)
    assert heard.count("hung died") == 1
    assert heard[-1] == "answer of waiting"
    assert calls.num_answers == len(heard)


def test_answers_that_are_waited_for_have_a_limit_too(ray: SilentRay) -> None:
    calls = Calls(0.1)
    with pytest.raises(Died, match=r"no answer within 0\.1 s"):
        calls.answer("hung")
    ray.ready = {"a", "b"}
    assert calls.answers(["a", "b"]) == ["answer of a", "answer of b"]


def test_a_run_that_stops_waits_no_longer_than_it_says(
    ray: SilentRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.1)
    said: list[str] = []
    calls = Calls(1e6, said.append)
    calls.is_stopping = lambda: True
    gone: list[str] = []
    calls.expect("hung", gone.append, "actor 1")
    calls.settle()
    assert gone == ["hung"]
    stopped = "counts as dead: the run stops without it"
    assert said == [f"actor 1 has not answered for 0.1 s and {stopped}"]


def test_an_actor_that_does_not_come_up_is_named_once(ray: SilentRay) -> None:
    said: list[str] = []
    heard: list[str] = []
    calls = Calls(0.1, said.append)
    calls.expect("start", heard.append, "actor 4", is_patient=True)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        calls.take_in()
    assert said == [
        "actor 4 has not come up for 0.1 s: no node has a place for it, or its environment hangs; "
        "the run keeps waiting for it"
    ]
    assert calls.num_late == 1
    ray.ready = {"start"}
    calls.take_in()
    assert heard == ["start"]
    assert calls.num_late == 0


def test_a_run_without_any_actor_ends_with_one_line(tmp_path: Path) -> None:
    play = Play(cluster_config(cluster={"actors": 2}), tmp_path)
    play.cluster.start()
    play.calls.num_late = 1
    play.cluster.call_all_who_may()  # the other actor may start
    play.calls.num_late = 2
    with pytest.raises(PartLost, match="no actor came up within 600 s"):
        play.cluster.call_all_who_may()


def test_a_ray_that_cannot_be_started_is_one_line(
    ray: SilentRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def fail(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nMore.")  # noqa: TRY002

    ended: list[bool] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False, raising=False)
    monkeypatch.setattr(ray, "init", fail, raising=False)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True), raising=False)
    monkeypatch.setattr(module, "keep_token_private", lambda: None)
    with (
        pytest.raises(ConfigError, match="^Ray could not be started: The current node timed out"),
        module.connected(cluster_config(), "", 2**28, said.append),
    ):
        pass
    assert len(ended) == module.START_ATTEMPTS
    assert len(said) == module.START_ATTEMPTS - 1
    assert said[0].startswith("Ray could not be started and is tried again: The current node")
