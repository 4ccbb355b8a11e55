"""A user's OMP_NUM_THREADS and the cores that a process may use are respected."""

import os

import pytest
import torch

from agent57.threads import VARIABLE, available, use_threads


@pytest.fixture
def _restored_threads() -> object:
    number = torch.get_num_threads()
    yield
    torch.set_num_threads(number)


@pytest.mark.parametrize(("value", "number"), [("1", 1), ("3", 3), ("2,1", 2)])
def test_the_variable_decides_if_it_is_set(monkeypatch, value: str, number: int) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert available() == number


@pytest.mark.parametrize("value", ["", "0", "many", "-1"])
def test_without_a_number_the_cores_of_this_process_decide(monkeypatch, value: str) -> None:
    monkeypatch.setenv(VARIABLE, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert available() == 3


@pytest.mark.usefixtures("_restored_threads")
def test_the_setting_of_a_run_comes_first(monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "3")
    use_threads(1)
    assert torch.get_num_threads() == 1
    use_threads(0)
    assert torch.get_num_threads() == 3
