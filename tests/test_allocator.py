"""By law: freed memory is kept for later tensors, and given back on request."""

import subprocess
import sys

CODE = """
import resource, torch
from agent57.allocator import keep_freed_memory
{call}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    for size in (3_000_000, 5_000_000, 9_000_000):
        torch.zeros(size).add_(1.0)
for _ in range(3):
    work()
before = faults()
for _ in range(20):
    work()
print(faults() - before)
"""


def num_faults(call: str) -> int:
    command = [sys.executable, "-c", CODE.format(call=call)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_freed_memory_is_kept():
    kept, given_back = num_faults("keep_freed_memory()"), num_faults("")
    assert kept < 0.2 * given_back, (kept, given_back)


HOLES = """
import os, torch
from pathlib import Path
from agent57.allocator import give_back_freed_memory, keep_freed_memory
keep_freed_memory()
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
small, large = [], []
for _ in range(100):
    large.append(torch.ones(250_000))
    small.append(torch.ones(100))  # stays, between the large ones
del large
before = resident()
{call}
print(before - resident())
"""


def num_given_back(call: str) -> int:
    command = [sys.executable, "-c", HOLES.format(call=call)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_holes_in_the_heap_are_given_back():
    assert num_given_back("") < 10e6
    assert num_given_back("give_back_freed_memory()") > 90e6
