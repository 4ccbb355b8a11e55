"""Several learners that act as one: each takes a share of every batch, gradients are averaged.

All learners start from the same weights and make the same steps. Their weights stay equal, so any
learner can supply the weights or be saved. The learners exchange the sizes that losses are divided
by, statistics of the whole batch, and gradients. Each computes the rest alone.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor

from agent57.learner import LoneLearner

PATIENCE = timedelta(minutes=10)  # how long an exchange waits for the other learners


class LearnerMissing(RuntimeError):
    """Another learner of the group did not take part in an exchange: it has died, or hangs."""


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LearnerMissing((str(error).splitlines() or [""])[0]) from error


class LearnerGroup(LoneLearner):
    """The learners of a run; this process holds one of them."""

    def __init__(self, group: "dist.ProcessGroup", device: torch.device) -> None:
        self._group = group
        self._device = device
        self._num_learners = group.size()

    @classmethod
    def join(cls, address: str, rank: int, num_learners: int, device: torch.device) -> Self:
        """Join the group at `address` (`tcp://host:port` or `file:///path`) and wait for all.

        A process may be in one group at a time. NCCL carries tensors on GPUs, Gloo on CPUs. The
        environment variables `NCCL_SOCKET_IFNAME` and `GLOO_SOCKET_IFNAME` select the network
        interface: `lo` keeps learners of one machine on loopback.
        """
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(
            backend,
            init_method=address,
            timeout=PATIENCE,
            rank=rank,
            world_size=num_learners,
        )
        assert dist.group.WORLD is not None
        return cls(dist.group.WORLD, device)

    def leave(self) -> None:
        """Leave the group; the others cannot go on without this learner."""
        dist.destroy_process_group(self._group)

    def check_in_step(self, num_updates: int) -> None:
        """Raise RuntimeError unless all learners have made the same number of updates."""
        counts = self.gather(torch.tensor(num_updates, device=self._device)).tolist()
        if len(set(counts)) > 1:
            raise RuntimeError(f"learners of a group are out of step: {counts} updates were made")

    def gather(self, values: Tensor) -> Tensor:
        """Return the values of every learner, [D, ...]; all learners get the same result."""
        gathered = [torch.empty_like(values) for _ in range(self._num_learners)]
        with _together():
            dist.all_gather(gathered, values.contiguous(), group=self._group)
        return torch.stack(gathered)

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over the learners, with one exchange for all tensors."""
        tensors = list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _together():
            dist.all_reduce(flat, group=self._group)
        means = (flat / self._num_learners).split([tensor.numel() for tensor in tensors])
        for tensor, mean in zip(tensors, means, strict=True):
            tensor.copy_(mean.view(tensor.shape))
