"""Memory of the process: freed tensors are kept for the next update instead of given back.

Whatever computes asks for it (`Learner`, `Player`), so a user's own script gets it too.

By default glibc returns every large tensor to the operating system when it is freed and faults it
in again, page by page, for the next one; that cost half of the core time of the convolutions'
gradients.

The price is that holes in the heap stay with the process. While the replay fills, its small blocks
settle between large tensors, which then find no hole that is long enough and make the heap grow.
Each checkpoint therefore gives the pages of all holes back, which costs milliseconds.

Sizes that do not fit in memory at all become one line here (`enough_memory`).
"""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

import torch

from agent57.config import ConfigError

NO_MEMORY = ("can't allocate memory", "not enough memory", "Storage size calculation overflowed")
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory() -> None:
    """Ask the C library to hold on to freed memory. Does nothing where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


def give_back_freed_memory() -> None:
    """Return the pages that hold no data to the system. Does nothing where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """Turn sizes that do not fit in memory into one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise ConfigError(
            f"the networks, lanes or replay of this configuration do not fit in memory: "
            f"{first_line(error)}"
        ) from error


def lacks_memory(error: Exception) -> bool:
    """Whether an error says that memory was refused. On a CPU torch has no type of its own."""
    is_named = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return is_named or any(text in str(error) for text in NO_MEMORY)


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]
