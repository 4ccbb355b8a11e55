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


def td_scale(mean_squares: Float[Tensor, "V J"]) -> Float[Tensor, "V J"]:
    """What to divide the errors of each network and arm by."""
    return mean_squares.sqrt().clamp(min=MIN_SCALE)


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


def follow(mean_squares: Float[Tensor, "V J"], summed: Float[Tensor, "rows J"]) -> None:
    """Move the running mean squares towards those of a batch; arms that are not in it stay."""
    number = summed[-1]
    batch = summed[:-1] / number.clamp(min=1)
    mean_squares.lerp_(torch.where(number > 0, batch, mean_squares), RATE)
