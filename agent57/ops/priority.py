"""How often a window is replayed, and how much its loss then counts."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def trained_rows(
    mask: Bool[Tensor, "T B"], start: Int[Tensor, "B"], burn_in: int
) -> Bool[Tensor, "T B"]:
    """Rows that count in loss and priority: valid, and not burn-in unless the episode begins there.

    `start` is the step of its episode a window starts with. At the start of an episode the zero
    state is exact, so there is nothing to warm up.
    """
    row = torch.arange(len(mask), device=mask.device)[:, None]
    return mask & ((row >= burn_in) | (start == 0))


def sequence_priority(
    td_error: Float[Tensor, "T B"], mask: Bool[Tensor, "T B"], mix: float
) -> Float[Tensor, "B"]:
    """The priority mix max|delta| + (1 - mix) mean|delta| of each window (R2D2).

    Only its valid rows count; without any, the priority is 0.
    """
    size = td_error.abs().masked_fill(~mask, 0.0)
    mean = size.sum(0) / mask.sum(0).clamp(min=1)
    return mix * size.amax(0) + (1 - mix) * mean


def importance_weights(probability: Float[Tensor, "B"], exponent: float) -> Float[Tensor, "B"]:
    """The weights p^-exponent over the largest in the batch (Schaul et al., 2016).

    The number of windows N of their (N p)^-exponent cancels. An exponent of 0, the paper's, gives
    ones.
    """
    weight = probability**-exponent
    return (weight / weight.amax()).float()
