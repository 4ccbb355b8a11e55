"""NGU's intrinsic reward of E lanes: episodic novelty times the life-long modulator.

Each episode keeps one embedding f for its whole length, because distances between different
embeddings mean nothing. Lanes start episodes at different times, so an actor holds several versions
of f at once, at most `actor.embedding_versions`. A new episode takes the learner's newest version
if a place is free for it, otherwise the newest version held. RND is updated together with the value
networks.

The modulator measures how novel a state is in the whole run: its RND error relative to the mean.
Statistics are kept per lane, because a lane is one of the paper's actors. So the way lanes are
spread over processes does not change the experiment.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent57.config import CuriosityConfig
from agent57.curiosity.episodic import EpisodicMemory, least_novelty
from agent57.nets.networks import Embedding, Rnd
from agent57.threads import in_turn, one_thread


def versions_held(embedding_versions: int, num_lanes: int) -> int:
    """Return how many embeddings an actor holds at most."""
    return min(num_lanes, embedding_versions or max(4, num_lanes // 8))


class RunningMoments:
    """Running mean and deviation of the values of each of E lanes (Welford).

    With a horizon, only about the latest `horizon` values count. After so many values, each new
    value replaces an average old value.
    """

    def __init__(self, num_lanes: int, horizon: int) -> None:
        """Start without values; a `horizon` of 0 counts all values."""
        self._max_kept = horizon - 1 if horizon else np.iinfo(np.int64).max
        self.count = np.zeros(num_lanes, np.int64)
        self.mean = np.zeros(num_lanes)
        self._sum_sq = np.zeros(num_lanes)  # of deviations from the mean

    def update(self, values: np.ndarray) -> None:
        """Add one value of every lane [E]."""
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
        """Return everything needed to go on."""
        return {name: torch.from_numpy(array.copy()) for name, array in self._arrays().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`; a state of one lane is broadcast to all lanes."""
        for name, array in self._arrays().items():
            array[:] = torch.as_tensor(state[name]).numpy()

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"count": self.count, "mean": self.mean, "sum_sq": self._sum_sq}


class RewardScale:
    """Divides the rewards of each lane by their running mean, so that they are near 1 in any task.

    A beta then has the same effect in every task, however large its distances are. r^i is never
    negative, so its mean measures its size, and rewards that hardly vary stay near 1.
    """

    def __init__(self, num_lanes: int, horizon: int) -> None:
        self.moments = RunningMoments(num_lanes, horizon)

    def __call__(self, reward: np.ndarray) -> np.ndarray:
        """Return the rewards [E] divided by their running mean, which includes them."""
        self.moments.update(reward.astype(np.float64))
        unit = np.where(self.moments.mean > 0, self.moments.mean, 1.0)
        return (reward / unit).astype(reward.dtype)


class Modulator:
    """Computes alpha = 1 + (err - mean) / deviation, clipped to [1, L] (NGU, section 2)."""

    def __init__(
        self, num_lanes: int, max_modulation: float, warmup_steps: int, horizon: int
    ) -> None:
        self._max = max_modulation
        self._warmup = warmup_steps
        self.moments = RunningMoments(num_lanes, horizon)

    def __call__(self, error: np.ndarray) -> np.ndarray:
        """Return the modulation [E] by these RND errors, which the moments then include."""
        self.moments.update(error.astype(np.float64))
        deviation = self.moments.deviation
        is_known = (self.moments.count > self._warmup) & (deviation > 0)
        relative = (error - self.moments.mean) / np.where(is_known, deviation, 1.0)
        alpha = np.clip(1 + relative, 1.0, self._max)
        return np.where(is_known, alpha, 1.0).astype(error.dtype)


class Curiosity:
    """Scores the states that E lanes arrive at."""

    def __init__(
        self,
        embedding: Embedding,
        rnd: Rnd,
        num_lanes: int,
        num_versions: int,
        config: CuriosityConfig,
        side_by_side: Callable[[Any], Any] = in_turn,
    ) -> None:
        self._side_by_side = side_by_side
        self._newest = embedding
        self._newest_version = 0
        self._rnd = rnd
        self._held = [copy.deepcopy(embedding) for _ in range(num_versions)]
        self._held_version = [0] * len(self._held)
        self._holder = np.zeros(num_lanes, dtype=np.int64)  # which held embedding a lane uses
        self._memory = EpisodicMemory(num_lanes, embedding.project.out_features, config)
        self.modulator = Modulator(
            num_lanes, config.max_modulation, config.warmup_steps, config.error_horizon
        )
        self._scale = (
            RewardScale(num_lanes, config.reward_horizon) if config.reward_horizon else None
        )
        self._least_novelty = least_novelty(config)
        self._max_modulation = np.float32(config.max_modulation)
        self.last: dict[str, np.ndarray] = {}  # factors of the latest rewards, to be logged

    @property
    def versions(self) -> np.ndarray:
        """The version of the embedding that each lane's episode keeps, [E]."""
        return np.array(self._held_version)[self._holder]

    def refresh(self, version: int) -> None:
        """Note that the networks given at construction now hold the learner's `version`."""
        self._newest_version = version

    @torch.inference_mode()
    def begin(self, lanes: np.ndarray, prepared: Tensor) -> None:
        """Wipe the memories of the lanes in the mask [E] and remember their first states."""
        self._holder[lanes] = self._adopt(set(self._holder[~lanes].tolist()))
        self._memory.reset(lanes)
        with one_thread():  # as in `reward`, where RND takes the other thread
            first = self._embed(prepared)
        self._memory.add(first, lanes)

    @torch.inference_mode()
    def reward(self, prepared: Tensor) -> np.ndarray:
        """Return r^i [E] of arriving at these states: episodic novelty, amplified up to L times."""
        novelty, error = self._side_by_side(
            [
                lambda: self._memory.novelty(self._embed(prepared)),
                lambda: self._rnd(prepared).float().cpu().numpy(),
            ]
        )
        modulation = self.modulator(error)
        self.last = {
            "novelty": novelty,
            "modulation": modulation,
            "familiar": novelty <= self._least_novelty,
            "modulation_at_1": modulation <= 1,
            "modulation_at_max": modulation >= self._max_modulation,
            "memory_fill": self._memory.fill,
            "distance_sq": self._memory.mean_distance_sq,
        }
        reward = novelty * modulation
        return reward if self._scale is None else self._scale(reward)

    def _adopt(self, in_use: set[int]) -> int:
        """Return the slot of the embedding for episodes that start now.

        The newest version is loaded if a slot is free.
        """
        if self._newest_version not in self._held_version:
            free = [slot for slot in range(len(self._held)) if slot not in in_use]
            if free:
                oldest = min(free, key=lambda slot: self._held_version[slot])
                self._held[oldest].load_state_dict(self._newest.state_dict())
                self._held_version[oldest] = self._newest_version
        return int(np.argmax(self._held_version))

    def _embed(self, prepared: Tensor) -> np.ndarray:
        """Return f(x) of each lane, by the embedding with which its episode started."""
        slots = np.unique(self._holder)
        if len(slots) == 1:
            return self._held[slots[0]](prepared).float().cpu().numpy()
        size = self._newest.project.out_features
        embedding = np.empty((len(self._holder), size), dtype=np.float32)
        for slot in slots:
            lanes = np.flatnonzero(self._holder == slot)
            embedding[lanes] = self._held[slot](prepared[torch.from_numpy(lanes)]).float().cpu()
        return embedding

    def lasting_state(self) -> dict[str, Any]:
        """Return the state that outlives an episode: the running scales of novelty."""
        return {
            "memory": self._memory.lasting_state(),
            "moments": self.modulator.moments.state_dict(),
            "scale": None if self._scale is None else self._scale.moments.state_dict(),
        }

    def load_lasting_state(self, state: dict[str, Any]) -> None:
        """Go on from a `lasting_state`, with no running episode."""
        self._memory.load_lasting_state(state["memory"])
        self.modulator.moments.load_state_dict(state["moments"])
        if self._scale is not None:
            self._scale.moments.load_state_dict(state["scale"])

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on, including running episodes."""
        return {
            **self.lasting_state(),
            "newest_version": self._newest_version,
            "held": [embedding.state_dict() for embedding in self._held],
            "held_version": list(self._held_version),
            "holder": self._holder.tolist(),
            "memory": self._memory.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.load_lasting_state(state)
        self._newest_version = int(state["newest_version"])
        saved = zip(self._held, state["held"], state["held_version"], strict=True)
        for i, (embedding, held, version) in enumerate(saved):
            embedding.load_state_dict(held)
            self._held_version[i] = int(version)
        self._holder = np.array(state["holder"], np.int64).reshape(self._holder.shape)
        self._memory.load_state_dict(state["memory"])
