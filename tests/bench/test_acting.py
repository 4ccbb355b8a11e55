import torch

from agent57.bench.acting import acting
from agent57.bench.limits import Limits
from agent57.bench.plan import QUICK


def test_all_networks_are_counted_whatever_the_threads() -> None:
    counted = set()
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        counted.add(acting(QUICK, Limits(0.0), "tiny", lanes=1).flops)
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    assert len(counted) == 1
