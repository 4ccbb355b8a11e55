"""By law: large tensors that come and go cost no page faults once memory is kept."""

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
