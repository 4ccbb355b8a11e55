"""The number of threads that torch computes with, and pieces of work that run side by side."""

import os
import threading

import pytest
import torch

from agent57.threads import VARIABLE, SideBySide, available, in_turn, use_threads
from tests.small import CPU


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


@pytest.fixture
def _two_threads(_restored_threads: object) -> None:
    torch.set_num_threads(2)


def test_results_come_in_the_order_of_the_pieces() -> None:
    pieces = [lambda n=n: n for n in range(4)]
    assert SideBySide(CPU)(pieces) == in_turn(pieces) == [0, 1, 2, 3]


def test_threads_of_torch_are_as_before_even_after_a_failure() -> None:
    before = torch.get_num_threads()
    together = SideBySide(CPU)
    together([lambda: 1, lambda: 2])
    assert torch.get_num_threads() == before

    def fail() -> int:
        raise RuntimeError("broken")

    for pieces in ([fail, lambda: 1], [lambda: 1, fail]):
        with pytest.raises(RuntimeError, match="broken"):
            together(pieces)
        assert torch.get_num_threads() == before


@pytest.mark.usefixtures("_two_threads")
def test_halved_threads_last_until_the_outermost_end_even_after_a_failure() -> None:
    both = SideBySide(CPU)
    with both.halved():
        assert torch.get_num_threads() == 1
        with both.halved():
            names = both([lambda: threading.current_thread().name] * 2)
        assert torch.get_num_threads() == 1
    assert names[0] != names[1]
    assert torch.get_num_threads() == 2
    with pytest.raises(RuntimeError, match="broken"), both.halved():
        raise RuntimeError("broken")
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_restored_threads")
def test_one_thread_is_not_halved() -> None:
    torch.set_num_threads(2)
    both = SideBySide(CPU)
    torch.set_num_threads(1)
    with both.halved():
        names = both([lambda: threading.current_thread().name] * 2)
        assert torch.get_num_threads() == 1
    assert names[0] == names[1]


def test_no_piece_is_recorded_for_gradients() -> None:
    weight = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        first, second = SideBySide(CPU)([lambda: weight * 2, lambda: weight * 3])
    assert not first.requires_grad
    assert not second.requires_grad


def test_a_single_piece_keeps_all_threads() -> None:
    before = torch.get_num_threads()
    assert SideBySide(CPU)([torch.get_num_threads]) == [before]


@pytest.mark.usefixtures("_two_threads")
def test_every_second_piece_runs_on_another_thread() -> None:
    names = SideBySide(CPU)([lambda: threading.current_thread().name] * 4)
    assert names[0] == names[2] == threading.current_thread().name
    assert names[1] == names[3] != names[0]


@pytest.mark.usefixtures("_restored_threads")
@pytest.mark.parametrize(("threads", "is_compiled"), [(1, False), (2, True)])
def test_one_thread_and_compiled_code_run_in_turn(threads: int, is_compiled: bool) -> None:
    torch.set_num_threads(threads)
    names = SideBySide(CPU, is_compiled=is_compiled)([lambda: threading.current_thread().name] * 2)
    assert set(names) == {threading.current_thread().name}


@pytest.mark.usefixtures("_two_threads")
def test_pieces_of_both_threads_are_recorded_and_cast_as_here() -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    pieces = [lambda: weight @ weight] * 2
    both = SideBySide(CPU)
    assert all(product.requires_grad for product in both(pieces))
    with torch.no_grad():
        assert not any(product.requires_grad for product in both(pieces))
    with torch.autocast("cpu", torch.bfloat16):
        assert {product.dtype for product in both(pieces)} == {torch.bfloat16}
