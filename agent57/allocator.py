"""Memory of the process: keep freed tensors for the next update, and report a lack of memory.

By default glibc returns every large tensor to the operating system when it is freed. The next
tensor is then faulted in page by page, which took half of the core time of the convolutions'
gradients. `Learner` and `Player` call `keep_freed_memory`, so a user's own script profits too.

The price is that holes in the heap stay with the process. While the replay fills, its small blocks
settle between large tensors. New large tensors then fit in no hole and make the heap grow. So each
checkpoint gives the pages of all holes back, which takes milliseconds.

`enough_memory` turns errors about sizes that do not fit in memory into one line.
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
    """Ask the C library to keep freed memory. Does nothing without glibc."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


def give_back_freed_memory() -> None:
    """Return pages without data to the operating system. Does nothing without glibc."""
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """Turn an error about a lack of memory into a `ConfigError` of one line."""
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
    """Whether an error means a lack of memory. On a CPU torch has no error type for this."""
    is_named = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return is_named or any(text in str(error) for text in NO_MEMORY)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]
