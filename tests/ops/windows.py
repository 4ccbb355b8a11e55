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
    **rows: Any,
) -> Tensor:
    """Return the TD errors of windows with these rows, from the middle of an episode."""
    one = torch.ones(rows["mask"].shape[1], dtype=torch.int64)
    windows = Windows(**rows, arm=one, start=one)
    return td_errors(online, target, windows, beta=beta, gamma=gamma, loss=loss, values=values)
