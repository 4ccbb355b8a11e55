import pytest
import torch

from agent57.nets.value import SideBySide, in_turn

CPU = torch.device("cpu")


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


def test_no_piece_is_recorded_for_gradients() -> None:
    weight = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        first, second = SideBySide(CPU)([lambda: weight * 2, lambda: weight * 3])
    assert not first.requires_grad
    assert not second.requires_grad


def test_a_single_piece_keeps_all_threads() -> None:
    before = torch.get_num_threads()
    assert SideBySide(CPU)([torch.get_num_threads]) == [before]
