"""The life-long modulator: how novel a state is in the whole run, relative to the usual RND error.

Statistics are kept per lane, because a lane is one of the paper's actors: how lanes are spread over
processes must not change the experiment.
"""

from typing import Any

import numpy as np
import torch


class RunningMoments:
    """Running mean and deviation of the values of each of E lanes (Welford).

    With a horizon only about the latest `horizon` values count: after that many, each new value
    takes the place of an average old one.
    """

    def __init__(self, num_lanes: int, horizon: int) -> None:
        """`horizon`: 0 for none."""
        self._max_kept = horizon - 1 if horizon else np.iinfo(np.int64).max
        self.count = np.zeros(num_lanes, np.int64)
        self.mean = np.zeros(num_lanes)
        self._sum_sq = np.zeros(num_lanes)  # of deviations from the mean

    def update(self, values: np.ndarray) -> None:
        """Take one value of every lane [E] into account."""
        kept = np.minimum(self.count, self._max_kept)
        self._sum_sq *= kept / np.maximum(self.count, 1)
        self.count[:] = kept + 1
        delta = values - self.mean
        self.mean += delta / self.count
        self._sum_sq += delta * (values - self.mean)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation over the population [E]; 0 before the second value."""
        return np.sqrt(self._sum_sq / np.maximum(self.count, 1))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on."""
        return {name: torch.from_numpy(array.copy()) for name, array in self._arrays().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`; a state of one lane is broadcast to all lanes."""
        for name, array in self._arrays().items():
            array[:] = torch.as_tensor(state[name]).numpy()

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"count": self.count, "mean": self.mean, "sum_sq": self._sum_sq}

    @staticmethod
    def pooled(state: dict[str, Any]) -> dict[str, Any]:
        """The saved moments of all lanes pooled into one lane's (Chan et al.)."""
        count, mean, sum_sq = (torch.as_tensor(state[n]) for n in ("count", "mean", "sum_sq"))
        total = count.sum()
        middle = (count * mean).sum() / total.clamp(min=1)
        spread = sum_sq + count * (mean - middle).square()
        return {"count": total[None], "mean": middle[None], "sum_sq": spread.sum()[None]}


class RewardScale:
    """Divides the rewards of each lane by their running mean, so that they are about 1 in any task.

    A beta then means the same in every task, however large its distances are. r^i is never
    negative, so its mean is its size, and rewards that hardly vary stay near 1.
    """

    def __init__(self, num_lanes: int, horizon: int) -> None:
        self.moments = RunningMoments(num_lanes, horizon)

    def __call__(self, reward: np.ndarray) -> np.ndarray:
        """Rewards of the lanes [E] in units of their running mean, which includes these."""
        self.moments.update(reward.astype(np.float64))
        unit = np.where(self.moments.mean > 0, self.moments.mean, 1.0)
        return (reward / unit).astype(reward.dtype)


class Modulator:
    """alpha = 1 + (err - mean) / deviation, clipped to [1, L]  (NGU, section 2)."""

    def __init__(
        self, num_lanes: int, max_modulation: float, warmup_steps: int, horizon: int
    ) -> None:
        self._max = max_modulation
        self._warmup = warmup_steps
        self.moments = RunningMoments(num_lanes, horizon)

    def __call__(self, error: np.ndarray) -> np.ndarray:
        """Modulation of each lane's RND error [E], after taking the errors into account."""
        self.moments.update(error.astype(np.float64))
        deviation = self.moments.deviation
        is_known = (self.moments.count > self._warmup) & (deviation > 0)
        relative = (error - self.moments.mean) / np.where(is_known, deviation, 1.0)
        alpha = np.clip(1 + relative, 1.0, self._max)
        return np.where(is_known, alpha, 1.0).astype(error.dtype)
