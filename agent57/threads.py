"""How many threads torch computes with: the run's setting, or what this process may use."""

import os

import torch

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
