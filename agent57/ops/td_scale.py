"""The size of TD errors, per network and arm: an option after MEME (Kapturowski et al., 2023).

Arms differ in beta_j and gamma_j, so their errors may differ in size by orders of magnitude; the
arms with the large ones then have the replay, and the gradient of a joint network, to themselves.
Divided by their own size, the errors of all arms count alike. The size is a running one of the
updates before: the batch at hand, which MEME takes into account too, is left out, so that several
learners, and actors, divide by the same.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

MIN_SCALE = 0.01  # MEME
RATE = 0.01  # at which the running mean squares follow those of the batches


def td_scale(running: Float[Tensor, "rows J"]) -> Float[Tensor, "V J"]:
    """What to divide the errors of each network and arm by, from what `follow` keeps.

    The mean of the batches an arm was in, of late ones above all; of all arms for an arm that was
    in none, and 1 before the first batch.
    """
    squares, weight = running[:-1], running[-1]
    of_all = squares.sum(1, keepdim=True) / weight.sum()
    mean_squares = torch.where(weight > 0, squares / weight, of_all)
    return torch.where(weight.sum() > 0, mean_squares, 1.0).sqrt().clamp(min=MIN_SCALE)


def summed_squares(
    td_error: Float[Tensor, "V T B"],
    trained: Bool[Tensor, "T B"],
    arm: Int[Tensor, "B"],
    num_arms: int,
) -> Float[Tensor, "rows J"]:
    """Of a batch and per arm: the squared errors of each network, and below them their number."""
    squares = (td_error.square() * trained).sum(1)  # [V, B]
    per_window = torch.cat([squares, trained.sum(0, keepdim=True).to(squares.dtype)])
    return per_window.new_zeros(len(per_window), num_arms).index_add(1, arm, per_window)


def follow(running: Float[Tensor, "rows J"], summed: Float[Tensor, "rows J"]) -> None:
    """Move the running mean squares towards those of a batch; arms that are not in it stay.

    They begin at 0, and the row below them says how far they have come from there to the truth.
    """
    number = summed[-1]
    batch = summed / number.clamp(min=1)
    running.lerp_(torch.where(number > 0, batch, running), RATE)
