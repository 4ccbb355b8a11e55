"""Standardised vectors: every coordinate has about unit size, whatever its unit.

The moments come from the batches that the learner trained on. They are buffers of the networks, so
they travel to players with the weights.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

MAX_BATCHES = 1000  # horizon of the moving moments
LIMIT = 5.0  # deviations at which coordinates are clipped


class Standard(nn.Module):
    """Subtracts the mean of each coordinate and divides by its deviation.

    Before the first batch vectors stay as they are.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mean: Tensor
        self.variance: Tensor
        self.num_batches: Tensor
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))
        self.register_buffer("num_batches", torch.zeros(()))

    def forward(self, vector: Float[Tensor, "*lead D"]) -> Float[Tensor, "*lead D"]:
        """Standardised vectors."""
        standard = (vector - self.mean) / self.variance.sqrt().clamp(min=1e-6)
        return torch.where(self.num_batches > 0, standard.clamp(-LIMIT, LIMIT), vector)

    @torch.no_grad()
    def follow(self, batch: Float[Tensor, "3 D"]) -> None:
        """Move the running moments towards the `moments` of one more batch."""
        number, mean, variance = batch
        if not number[0] > 0:
            return
        self.num_batches.add_(1).clamp_(max=MAX_BATCHES)
        rate = 1 / self.num_batches
        between = rate * (1 - rate) * (mean - self.mean).square()
        self.variance.lerp_(variance, rate).add_(between)
        self.mean.lerp_(mean, rate)


def moments(vector: Float[Tensor, "T B D"], mask: Bool[Tensor, "T B"]) -> Float[Tensor, "3 D"]:
    """Number of the rows in the mask, and mean and variance of each coordinate over them."""
    weight = mask[..., None].to(vector.dtype)
    number = weight.sum((0, 1)).expand(vector.shape[-1])
    mean = (vector * weight).sum((0, 1)) / number.clamp(min=1)
    variance = ((vector - mean).square() * weight).sum((0, 1)) / number.clamp(min=1)
    return torch.stack([number, mean, variance])


def pooled(parts: Float[Tensor, "P 3 D"]) -> Float[Tensor, "3 D"]:
    """The moments of all rows, from the moments of P parts (Chan et al.)."""
    number, mean, variance = parts.unbind(1)
    total = number.sum(0)
    share = number / total.clamp(min=1)
    middle = (share * mean).sum(0)
    spread = (share * (variance + (mean - middle).square())).sum(0)
    return torch.stack([total, middle, spread])
