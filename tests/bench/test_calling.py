"""Costs of calls: measured on a Ray started for this, or those of the reference machine."""

from pathlib import Path

import pytest

from agent57.bench.calling import measure_calls
from agent57.planning.machine_costs import REFERENCE

KNOWN = (REFERENCE.answer, REFERENCE.ray_cores, REFERENCE.process_cores)


def test_without_time_or_ray_the_reference_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure_calls(0.0) == KNOWN
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert measure_calls(1.0) == KNOWN


def test_a_ray_that_runs_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent57.bench.calling.prepare", lambda config: "127.0.0.1:6379")
    assert measure_calls(1.0) == KNOWN


def test_each_cost_is_found_on_a_ray_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("agent57.runtime.cluster.ray_address.STARTED_HERE", tmp_path / "none")
    answer, ray_cores, process_cores = measure_calls(2.0)
    assert (answer, ray_cores, process_cores) != KNOWN
    assert 0 <= answer < 1
    assert 0 < ray_cores < 8
    assert 0 <= process_cores < 1
