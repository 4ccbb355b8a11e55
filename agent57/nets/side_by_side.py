"""Runs independent pieces of inference at the same time, each on a core of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Output = TypeVar("Output")


def in_turn(pieces: Sequence[Callable[[], Output]]) -> list[Output]:
    """The results of the pieces, computed one after the other."""
    return [piece() for piece in pieces]


class SideBySide:
    """Runs pieces in parallel where that pays: on a CPU with more than one thread to use.

    The networks of one step are too small to be split among the threads of OpenMP, which wait for
    each other after every layer. Whole networks in parallel wait once. On a GPU nothing is gained.
    """

    def __init__(self, device: torch.device) -> None:
        is_parallel = device.type == "cpu" and torch.get_num_threads() > 1
        self._pool = ThreadPoolExecutor(1, "inference") if is_parallel else None

    def __call__(self, pieces: Sequence[Callable[[], Output]]) -> list[Output]:
        """The results of the pieces: the first by this thread, the others by a second one."""
        if self._pool is None or len(pieces) == 1:
            return in_turn(pieces)
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # of the matrix library, for both; of this thread's OpenMP
        try:
            others = self._pool.submit(_apart, pieces[1:])
            try:
                first = pieces[0]()
            finally:
                results = others.result()
            return [first, *results]
        finally:
            torch.set_num_threads(num_threads)


@torch.inference_mode()
def _apart(pieces: Sequence[Callable[[], Output]]) -> list[Output]:
    torch.set_num_threads(1)  # of the second thread's OpenMP
    return in_turn(pieces)
