"""The value rescaling h and its inverse (the paper's appendix A; Pohlen et al., 2018).

In float32 the printed formulas lose up to 4 % of small values, because they subtract nearly equal
numbers. The equivalent formulas here do not. Both functions compute in float32 at least, so that
autocast cannot coarsen them.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def at_least_float32(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`x` in float32, or in float64 if it already is."""
    return x if x.dtype == torch.float64 else x.float()


def squash(x: Float[Tensor, "*shape"], eps: float) -> Float[Tensor, "*shape"]:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + eps x."""
    x = at_least_float32(x)
    return x / ((x.abs() + 1).sqrt() + 1) + eps * x


def unsquash(y: Float[Tensor, "*shape"], eps: float) -> Float[Tensor, "*shape"]:
    """The inverse of `squash`.

        h^-1(y) = sign(y) (((sqrt(1 + 4 eps (|y| + 1 + eps)) - 1) / (2 eps))^2 - 1)

    computed as sign(y) d (d + 2), where d is the bracket before the square, less 1.
    The paper prints h^-1 without the square, which inverts nothing.
    """
    y = at_least_float32(y)
    size = y.abs()
    root = ((1 + 2 * eps) ** 2 + 4 * eps * size).sqrt()
    factor = (2 - 4 * eps / (root + (1 + 2 * eps))) / (1 + root)
    return y * factor * (size * factor + 2)
