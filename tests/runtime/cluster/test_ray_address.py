"""Tests which Ray is joined, and that a Ray started by a run stays on loopback."""

import importlib.util
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent57.config import Config, ConfigError
from agent57.runtime.cluster import ray_address
from tests.small import changed

CONFIG = changed(Config(), run={"runtime": "cluster"})
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(LOOPBACK_ONLY, "unset")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_address, "STARTED_HERE", tmp_path / "ray_current_cluster")


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def at(address: str) -> Config:
    return changed(CONFIG, cluster={"ray_address": address})


def test_without_ray_the_way_to_get_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'agent57\[cluster\]'"):
        ray_address.prepare(CONFIG)


def test_a_ray_of_our_own_may_not_leave_loopback() -> None:
    assert ray_address.prepare(CONFIG) == ""
    assert ray_address.os.environ[LOOPBACK_ONLY] == "0"


def test_a_ray_that_runs_on_this_machine_is_joined(listening: str) -> None:
    ray_address.STARTED_HERE.write_text(f"{listening}\n")
    assert ray_address.prepare(CONFIG) == listening
    assert ray_address.os.environ[LOOPBACK_ONLY] == "unset"


@pytest.mark.parametrize("address", ["127.0.0.1:9", "192.0.2.77:6379", "", "no address"])
def test_a_ray_that_has_ended_is_not_joined(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not address.startswith("127"):  # some networks answer at every address
        monkeypatch.setattr(ray_address.socket, "create_connection", lambda *_: socket.socket())
    ray_address.STARTED_HERE.write_text(f"{address}\n")
    assert ray_address.prepare(CONFIG) == ""


def test_an_address_is_joined_by_option_or_environment(
    listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ray_address.prepare(at(listening)) == listening
    monkeypatch.setenv("RAY_ADDRESS", listening)
    assert ray_address.prepare(CONFIG) == listening


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nonsense", "127.0.0.1:99999999"])
def test_an_address_where_nothing_answers_is_one_line(address: str) -> None:
    with pytest.raises(ConfigError, match="nothing answers there"):
        ray_address.prepare(at(address))


def test_a_client_address_is_one_line() -> None:
    with pytest.raises(ConfigError, match="run the command on a node of the cluster"):
        ray_address.prepare(at("ray://head:10001"))
