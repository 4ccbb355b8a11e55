"""Several learners that act as one: each takes a share of every batch, gradients are averaged.

All learners start from the same weights and make the same steps. Their weights stay the same, so
any one of them can be asked for weights or be saved. They agree on the sizes that losses are
divided by, on statistics of the whole batch, and on the gradient; each computes the rest alone.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor

from agent57.learner import LoneLearner

PATIENCE = timedelta(minutes=10)  # with learners that do not come to an exchange


class LearnerMissing(RuntimeError):
    """Another learner of the group did not come to an exchange: it has died, or hangs."""


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LearnerMissing((str(error).splitlines() or [""])[0]) from error


class LearnerGroup(LoneLearner):
    """The learners of a run, of which this process holds one."""

    def __init__(self, group: "dist.ProcessGroup", device: torch.device) -> None:
        self._group = group
        self._device = device
        self._num_learners = group.size()

    @classmethod
    def join(cls, address: str, rank: int, num_learners: int, device: torch.device) -> Self:
        """Meet the others at `address`, `tcp://host:port` or `file:///path`; waits for all of them.

        Each process may be in one group at a time. NCCL carries tensors on GPUs, Gloo all others.
        Their network is set by `NCCL_SOCKET_IFNAME` and `GLOO_SOCKET_IFNAME`: `lo` keeps
        learners of one machine on loopback.
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
        """The values of every learner, [D, ...]; the same answer for all of them."""
        gathered = [torch.empty_like(values) for _ in range(self._num_learners)]
        with _together():
            dist.all_gather(gathered, values.contiguous(), group=self._group)
        return torch.stack(gathered)

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over the learners, all of them in one exchange."""
        tensors = list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _together():
            dist.all_reduce(flat, group=self._group)
        means = (flat / self._num_learners).split([tensor.numel() for tensor in tensors])
        for tensor, mean in zip(tensors, means, strict=True):
            tensor.copy_(mean.view(tensor.shape))
