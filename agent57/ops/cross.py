"""Cross-mixture training (MEME): every window also teaches arms that did not play it.

The arm that played has the share eta of the weight; all arms share the rest evenly. Returns are
corrected for the policy that played, and r^i does not depend on the arm, so any arm may learn.
Where arms enter the heads, one unroll serves every arm of a window. Where they enter the core, an
arm is drawn for each window, so that an update costs no more.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Float64, Int, Shaped
from torch import Tensor

from agent57.config import Config
from agent57.types import WINDOW_AXIS, Batch, Windows

BITS = 53  # in the fraction of a float64


def hashed_uniforms(key: Int[Tensor, "B"], salt: int) -> Float64[Tensor, "B"]:
    """Numbers in [0, 1) that depend only on key and salt (splitmix64), not on state or order."""
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
    """The arms to learn windows for: with probability eta the arm that played, otherwise any."""
    is_crossed = hashed_uniforms(key, 2 * salt) >= eta
    drawn = (hashed_uniforms(key, 2 * salt + 1) * num_arms).long()
    return torch.where(is_crossed, drawn, arm)


def crossed(batch: Batch, salt: int, config: Config) -> tuple[Batch, Windows]:
    """The batch, perhaps with arms drawn anew, and the N windows that are learned.

    N is B, or B x J where each window is learned for every arm.
    """
    eta, num_arms = config.learner.cross_mixture, config.family.arms
    if eta == 1:
        return batch, batch
    if config.network.arm_input == "core":
        batch = replace(batch, arm=cross_arms(batch.arm, batch.key, salt, eta, num_arms))
        return batch, batch
    repeated = {
        name: getattr(batch, name).repeat_interleave(num_arms, dim=WINDOW_AXIS.get(name, 1))
        for name in Windows.__dataclass_fields__
    }
    every_arm = torch.arange(num_arms, device=batch.arm.device).repeat(len(batch.arm))
    return batch, Windows(**repeated | {"arm": every_arm})


def of_played_arms(columns: Shaped[Tensor, "K rows N *rest"], batch: Batch) -> Tensor:
    """The columns [K, rows, B, ...] of the arms that played, out of all N that were learned."""
    num_windows = len(batch.arm)
    if columns.shape[2] == num_windows:
        return columns
    each = torch.arange(num_windows, device=columns.device)
    return columns.unflatten(2, (num_windows, -1))[:, :, each, batch.arm]


def learned_weights(
    weight: Float[Tensor, "B"], batch: Batch, windows: Windows, config: Config
) -> Float[Tensor, "N"]:
    """The weight of each learned window: its importance weight times the share of its arm."""
    if windows is batch:
        return weight
    eta, num_arms = config.learner.cross_mixture, config.family.arms
    played = batch.arm.repeat_interleave(num_arms) == windows.arm
    share = eta * played + (1 - eta) / num_arms
    return num_arms * share * weight.repeat_interleave(num_arms)
