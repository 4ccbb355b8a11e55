"""Arms drawn for windows: cross-mixture training (MEME) where the arm enters the core.

MEME learns every window for the arm that played it and, with the rest of the weight, for all arms.
Here an arm is drawn for each window instead, so that an update costs no more. Retrace corrects for
the policy that played, and r^i does not depend on the arm: all arms learn from what one finds.
"""

import torch
from jaxtyping import Float64, Int
from torch import Tensor

BITS = 53  # in the fraction of a float64


def hashed_uniforms(key: Int[Tensor, "B"], salt: int) -> Float64[Tensor, "B"]:
    """Numbers in [0, 1) that depend on key and salt alone (splitmix64), not on state or order."""
    x = key + _signed(salt * 0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ _shifted(x, shift)) * _signed(factor)
    x = x ^ _shifted(x, 31)
    return _shifted(x, 64 - BITS).double() / 2**BITS


def _signed(number: int) -> int:
    """The 64 bits of a number as an int64."""
    return (number + 2**63) % 2**64 - 2**63


def _shifted(x: Int[Tensor, "B"], by: int) -> Int[Tensor, "B"]:
    """Bits moved to the right, zeros from the left."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def cross_arms(
    arm: Int[Tensor, "B"], key: Int[Tensor, "B"], salt: int, eta: float, num_arms: int
) -> Int[Tensor, "B"]:
    """The arms to learn windows for: with probability eta the one that played, otherwise any."""
    is_crossed = hashed_uniforms(key, 2 * salt) >= eta
    drawn = (hashed_uniforms(key, 2 * salt + 1) * num_arms).long()
    return torch.where(is_crossed, drawn, arm)
