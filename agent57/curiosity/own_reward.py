"""An intrinsic reward that a user's program registered, in place of NGU's."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent57.own_parts import IntrinsicReward


class OwnCuriosity:
    """Wraps a registered intrinsic reward to be used like `Curiosity`."""

    def __init__(self, part: IntrinsicReward, num_lanes: int) -> None:
        self._part = part
        self._num_lanes = num_lanes
        self.last: dict[str, np.ndarray] = {}  # factors of the latest rewards, to be logged

    def refresh(self, version: int) -> None:
        """Do nothing: a registered reward has no weights of the learner."""

    @torch.inference_mode()
    def begin(self, lanes: np.ndarray, prepared: Tensor) -> None:
        """Start new episodes in the lanes of the mask [E]."""
        self._part.begin(lanes, prepared)

    @torch.inference_mode()
    def reward(self, prepared: Tensor) -> np.ndarray:
        """Return the checked r^i [E] of arriving at these states."""
        reward = np.asarray(self._part.reward(prepared), np.float32)
        if reward.shape != (self._num_lanes,) or not np.isfinite(reward).all():
            raise FloatingPointError(
                f"the registered intrinsic reward must be {self._num_lanes} finite numbers, "
                f"got {reward}"
            )
        self.last = {"novelty": reward}
        return reward

    def lasting_state(self) -> dict[str, Any]:
        """Return the whole state: only the registered part knows what outlives an episode."""
        return self.state_dict()

    def load_lasting_state(self, state: dict[str, Any]) -> None:
        """Go on from a `lasting_state`."""
        self.load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the registered part."""
        return {"own": self._part.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self._part.load_state_dict(state["own"])
