"""The threads that torch computes with, and how whole networks share them."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Output = TypeVar("Output")

VARIABLE = "OMP_NUM_THREADS"


def use_threads(configured: int) -> None:
    """Let torch compute with `configured` threads; 0 leaves the number to the surroundings."""
    torch.set_num_threads(configured or available())


def available() -> int:
    """Return OMP_NUM_THREADS if it is set, otherwise the number of cores this process may use."""
    asked = os.environ.get(VARIABLE, "").partition(",")[0]
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):  # Linux: a container or taskset may allow fewer cores
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread for a while: more may add numbers up in another order."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def in_turn(pieces: Sequence[Callable[[], Output]]) -> list[Output]:
    """Return the results of the pieces, computed one after the other."""
    return [piece() for piece in pieces]


class SideBySide:
    """Runs pieces that need nothing of each other on two threads, if torch has two on a CPU.

    The threads of OpenMP meet after each operation, and our operations are small: on vectors two
    threads take longer than one. Whole networks side by side meet once, and each is computed with
    half of the threads. Which thread computes a piece does not depend on how fast the others are.
    On a GPU nothing is gained, and code that is compiled has threads of its own.
    """

    def __init__(self, device: torch.device, *, is_compiled: bool = False) -> None:
        self.is_parallel = device.type == "cpu" and torch.get_num_threads() > 1 and not is_compiled
        self._pool = ThreadPoolExecutor(1, "side-by-side") if self.is_parallel else None
        self._is_halved = False

    @contextmanager
    def halved(self) -> Iterator[None]:
        """Let torch compute with half of its threads for a while, also between the pieces."""
        num_threads = torch.get_num_threads()
        if self._pool is None or self._is_halved or num_threads == 1:
            yield
            return
        torch.set_num_threads(num_threads // 2)
        self._is_halved = True
        try:
            yield
        finally:
            self._is_halved = False
            torch.set_num_threads(num_threads)

    def __call__(self, pieces: Sequence[Callable[[], Output]]) -> list[Output]:
        """Return the results of the pieces: this thread computes every second one of them."""
        if self._pool is None or len(pieces) == 1:
            return in_turn(pieces)
        with self.halved():
            if not self._is_halved:  # there is one thread now
                return in_turn(pieces)
            others = self._pool.submit(_as_here(), pieces[1::2])
            try:
                own = in_turn(pieces[::2])
            finally:
                results = others.result()
        found = [own[0]] * len(pieces)
        found[::2], found[1::2] = own, results
        return found


def _as_here() -> Callable[[Sequence[Callable[[], Output]]], list[Output]]:
    """Return `in_turn` for another thread, with this thread's modes and number of threads."""
    num_threads = torch.get_num_threads()
    is_recording, is_inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    is_cast, cast_type = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def run(pieces: Sequence[Callable[[], Output]]) -> list[Output]:
        torch.set_num_threads(num_threads)  # of this thread's OpenMP
        with (
            torch.inference_mode(is_inference),
            torch.set_grad_enabled(is_recording),
            torch.autocast("cpu", cast_type, enabled=is_cast),
        ):
            return in_turn(pieces)

    return run
