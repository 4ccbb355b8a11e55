"""The records that travel between the parts, and how their rows are aligned in time.

Row t of every record is

    observation[t] --action[t]--> extrinsic[t], intrinsic[t], discount[t], observation[t+1]

so the action of a row earned the reward of the same row. The intrinsic reward of row t is the
novelty of observation[t+1]. With observation[t] the networks see the action and rewards of row t-1.
`discount` is 0 where the episode terminated and 1 elsewhere, also where it was truncated. The loss
applies the gamma of the arm. A window has T rows and T+1 observations: the last observation is for
bootstrapping.

Dimension letters: T time, B windows in a batch, E lanes of one player, V values (extrinsic and
intrinsic, or one joint), L learned values (V, or their mixture), C cores of the value networks, A
actions, J arms, K neighbours, M memory slots, D embedding, H recurrent state, C Y X image.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

if TYPE_CHECKING:  # environments import this module, and drawing them must not load torch
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """The properties of a task that an agent's networks and replay depend on."""

    name: str
    kind: Literal["pixels", "grid", "vector"]  # decides which torso is built
    observation_shape: tuple[int, ...]  # (C, Y, X), or (D,) for a vector
    observation_dtype: Literal["uint8", "float32"]
    num_actions: int
    frames_per_step: int  # emulator frames per agent step; 1 outside Atari
    max_value: int = 255  # largest value of a uint8 observation
    action_names: tuple[str, ...] = ()  # one per action; empty where the task gives no names
    # (C, Y, X) if an observation is an image followed by float numbers, all stored as bytes
    image_shape: tuple[int, ...] = ()

    @property
    def num_beside(self) -> int:
        """Float numbers that follow the image in each observation."""
        if not self.image_shape:
            return 0
        return (self.observation_bytes - math.prod(self.image_shape)) // 4

    @property
    def observation_bytes(self) -> int:
        """Bytes of one observation before compression."""
        return math.prod(self.observation_shape) * np.dtype(self.observation_dtype).itemsize


class Bundle:
    """Named tensors that travel together."""

    __slots__ = ()

    def map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Return the bundle with `fn` applied to each tensor."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return type(self)(**{f.name: fn(getattr(self, f.name)) for f in fields})

    def to(self, device: torch.device) -> Self:
        """Return the bundle on `device`."""
        return self.map(lambda x: x.to(device, non_blocking=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(Bundle):
    """The steps of B windows of T rows, time-major.

    Rows after the end of an episode are padding. In padding `mask` is False, `action_prob` is 1 and
    everything else is 0.
    """

    action: Tensor  # [T, B] int64
    action_prob: Tensor  # [T, B] float32, mu(action | observation) as played
    extrinsic: Tensor  # [T, B] float32
    intrinsic: Tensor  # [T, B] float32
    discount: Tensor  # [T, B] float32, 0 where the episode terminated
    mask: Tensor  # [T, B] bool, False in padding
    arm: Tensor  # [B] int64
    start: Tensor  # [B] int64, steps of the episode before the window's first row

    @classmethod
    def padded(
        cls,
        steps: np.ndarray,
        length: np.ndarray,
        is_terminated: np.ndarray,
        arm: np.ndarray,
        start: np.ndarray,
    ) -> Self:
        """Return N windows with `length` [N] valid steps each, from packed steps [N, T].

        The rows of `steps` after the valid rows are overwritten with padding.
        """
        import torch

        mask = np.arange(steps.shape[1]) < length[:, None]
        steps[~mask] = np.array((0, 0, 1, 0), steps.dtype)  # action_prob is 1 in padding
        discount = mask.astype(np.float32)
        discount[np.arange(len(length)), length - 1] = ~is_terminated

        def time_major(rows: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(rows.T))

        return cls(
            action=time_major(steps["action"].astype(np.int64)),
            action_prob=time_major(steps["action_prob"]),
            extrinsic=time_major(steps["extrinsic"]),
            intrinsic=time_major(steps["intrinsic"]),
            discount=time_major(discount),
            mask=time_major(mask),
            arm=torch.from_numpy(arm),
            start=torch.from_numpy(start),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the windows of all parts as one bundle."""
        import torch

        def cat(name: str) -> Tensor:
            return torch.cat([getattr(part, name) for part in parts], WINDOW_AXIS.get(name, 1))

        names = (field.name for field in dataclasses.fields(cls))
        return parts[0] if len(parts) == 1 else cls(**{name: cat(name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Windows):
    """Windows with everything the learner needs to train on them."""

    observation: Tensor  # [T+1, B, ...] uint8 or float32
    previous_action: Tensor  # [T+1, B] int64
    previous_extrinsic: Tensor  # [T+1, B] float32
    previous_intrinsic: Tensor  # [T+1, B] float32
    state: Tensor  # [C, 2, B, H] float32, recurrent state before the window's first row
    key: Tensor  # [B] int64, name of the window when its priority is written back
    probability: Tensor  # [B] float64, probability with which the window was drawn


# The axis of a Batch's windows, by field; axis 1 in all other fields.
WINDOW_AXIS = {"arm": 0, "start": 0, "key": 0, "probability": 0, "state": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One agent step of E lanes, in the alignment above."""

    observation: np.ndarray  # [E, ...]
    previous_action: np.ndarray  # [E] int64
    previous_extrinsic: np.ndarray  # [E] float32
    previous_intrinsic: np.ndarray  # [E] float32
    action: np.ndarray  # [E] int64
    action_prob: np.ndarray  # [E] float32
    extrinsic: np.ndarray  # [E] float32
    intrinsic: np.ndarray  # [E] float32
    terminated: np.ndarray  # [E] bool
    truncated: np.ndarray  # [E] bool, never where terminated
    next_observation: np.ndarray  # [E, ...], the episode's last observation where it ended
    arm: np.ndarray  # [E] int64
    state: np.ndarray  # [C, 2, E, H] float32, before `observation`
    value: np.ndarray  # [V, E, A] float32, of `observation`
    final_value: np.ndarray  # [V, E, A] float32, of `next_observation`; only read where truncated
    logits: np.ndarray | None = None  # [E, A] float32, of the policy if it is distilled
    final_logits: np.ndarray | None = None  # [E, A] float32, of `next_observation`

    @property
    def outputs(self) -> np.ndarray:
        """Values, and logits if there are any, of `observation`: [O, E, A]."""
        return _joined(self.value, self.logits)

    @property
    def final_outputs(self) -> np.ndarray:
        """Values, and logits if there are any, of `next_observation`: [O, E, A]."""
        return _joined(self.final_value, self.final_logits)


def _joined(value: np.ndarray, logits: np.ndarray | None) -> np.ndarray:
    return value if logits is None else np.concatenate([value, logits[None]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A finished episode, as one line of episodes.jsonl."""

    source: str  # actor or evaluator
    phase: str  # train, or evaluate for the evaluator's greedy-arm episodes
    lane: int
    arm: int
    beta: float
    gamma: float
    frames: int  # frames trained on when the episode ended
    length: int  # agent steps
    episode_return: float  # undiscounted extrinsic
    intrinsic_return: float  # undiscounted intrinsic, before beta
