"""The life-long modulator: how novel a state is in the whole run, relative to what is usual."""

from typing import Any

import numpy as np


class RunningMoments:
    """Mean and deviation of everything seen so far, batch by batch (Chan et al.)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._sum_sq = 0.0  # of deviations from the mean

    def update(self, values: np.ndarray) -> None:
        """Take a batch of values into account."""
        count, mean = values.size, float(values.mean(dtype=np.float64))
        delta, total = mean - self.mean, self.count + count
        self._sum_sq += float(np.square(values - mean, dtype=np.float64).sum())
        self._sum_sq += delta**2 * self.count * count / total
        self.mean += delta * count / total
        self.count = total

    @property
    def deviation(self) -> float:
        """Standard deviation over the population; 0 before the second value."""
        return (self._sum_sq / max(self.count, 1)) ** 0.5

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on."""
        return {"count": self.count, "mean": self.mean, "sum_sq": self._sum_sq}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.count, self.mean, self._sum_sq = state["count"], state["mean"], state["sum_sq"]


class Modulator:
    """alpha = 1 + (err - mean) / deviation, clipped to [1, L]  (NGU, section 2)."""

    def __init__(self, max_modulation: float, warmup_steps: int) -> None:
        self._max = max_modulation
        self._warmup = warmup_steps
        self.moments = RunningMoments()

    def __call__(self, error: np.ndarray) -> np.ndarray:
        """Modulation of each lane's RND error [E], after taking the errors into account."""
        self.moments.update(error)
        deviation = self.moments.deviation
        if self.moments.count <= self._warmup or deviation == 0:
            return np.ones_like(error)
        alpha = 1 + (error - self.moments.mean) / deviation
        return np.clip(alpha, 1.0, self._max).astype(error.dtype)
