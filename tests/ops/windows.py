"""Computes TD errors of windows that are given row by row."""

from typing import Any, Literal

import torch
from torch import Tensor

from agent57.config import LearnerConfig
from agent57.ops.td import td_errors
from agent57.types import Windows


def errors_of(
    online: Tensor,
    target: Tensor,
    *,
    beta: Tensor,
    gamma: Tensor,
    loss: LearnerConfig,
    values: Literal["separate", "joint"],
    size: float = 1.0,
    **rows: Any,
) -> Tensor:
    """Return the TD errors of windows with these rows, from the middle of an episode.

    Errors of each value usually have this size, in every arm.
    """
    one = torch.ones(rows["mask"].shape[1], dtype=torch.int64)
    windows = Windows(**rows, arm=one, start=one)
    scale = torch.full((len(online), 2), size)
    options = {"beta": beta, "gamma": gamma, "loss": loss, "values": values, "scale": scale}
    return td_errors(online, target, windows, **options)
