import torch

from agent57.bench.acting import flops_of_a_step


def test_all_networks_are_counted_whatever_the_threads() -> None:
    counted = set()
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        counted.add(flops_of_a_step("tiny"))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    assert len(counted) == 1
