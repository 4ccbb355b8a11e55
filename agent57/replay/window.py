"""Turns windows of blocks into batches for the learner, whose first axis is time."""

import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from agent57.config import SequenceConfig
from agent57.replay.block import Block, Decoder, Layout
from agent57.types import Batch, Windows

_PARALLEL_BYTES = 1 << 20  # bytes of observations in a batch that justify waking other threads
_SPARE_BUFFERS = 2  # observation buffers kept for the next batches


def padded_windows(
    steps: np.ndarray,
    length: np.ndarray,
    is_terminated: np.ndarray,
    arm: np.ndarray,
    start: np.ndarray,
) -> Windows:
    """Return N windows with `length` [N] valid steps each, from rows of steps [N, T].

    The rows of `steps` after the valid rows are overwritten with padding.
    """
    mask = np.arange(steps.shape[1]) < length[:, None]
    steps[~mask] = np.array((0, 0, 1, 0), steps.dtype)  # action_prob is 1 in padding
    discount = mask.astype(np.float32)
    discount[np.arange(len(length)), length - 1] = ~is_terminated

    def time_major(rows: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(rows.T))

    return Windows(
        action=time_major(steps["action"].astype(np.int64)),
        action_prob=time_major(steps["action_prob"]),
        extrinsic=time_major(steps["extrinsic"]),
        intrinsic=time_major(steps["intrinsic"]),
        discount=time_major(discount),
        mask=time_major(mask),
        arm=torch.from_numpy(arm),
        start=torch.from_numpy(start),
    )


class WindowReader:
    """Decodes several windows at once into time-major tensors, pinned if `pin_memory`."""

    def __init__(
        self,
        sequence: SequenceConfig,
        layout: Layout,
        *,
        threads: int,
        pin_memory: bool,
    ) -> None:
        self._sequence = sequence
        self._layout = layout
        self._decoder = Decoder()
        self._pool = ThreadPoolExecutor(threads, "replay-read") if threads > 1 else None
        self._pin_memory = pin_memory
        self._spare: deque[np.ndarray] = deque(maxlen=_SPARE_BUFFERS)

    def read(self, windows: list[list[Block]], keys: np.ndarray, probability: np.ndarray) -> Batch:
        """Return one batch of these windows, in the given order."""
        rows = self._steps(windows)
        first = [window[0] for window in windows]
        previous = {}
        for name in ("action", "extrinsic", "intrinsic"):
            column, key = getattr(rows, name), f"previous_{name}"
            before = torch.tensor([getattr(block, key) for block in first], dtype=column.dtype)
            previous[key] = torch.cat([before[None], column])
        states = [block.state for block in first if block.state is not None]
        batch = Batch(
            **{name: getattr(rows, name) for name in Windows.__dataclass_fields__},
            **previous,
            observation=self._observations(windows),
            state=torch.from_numpy(np.stack(states, axis=2)),
            key=torch.from_numpy(keys),
            probability=torch.from_numpy(probability),
        )
        return batch.map(Tensor.pin_memory) if self._pin_memory else batch

    def _steps(self, windows: list[list[Block]]) -> Windows:
        steps = np.zeros((len(windows), self._sequence.window_length), self._layout.step_dtype)
        length = np.array([sum(block.length for block in window) for window in windows])
        for row, window in enumerate(windows):
            steps[row, : length[row]] = np.concatenate([block.steps for block in window])
        return padded_windows(
            steps,
            length,
            is_terminated=np.array([window[-1].is_terminated for window in windows]),
            arm=np.array([window[0].arm for window in windows]),
            start=np.array([window[0].index for window in windows]) * self._sequence.replay_period,
        )

    def _observations(self, windows: list[list[Block]]) -> Tensor:
        """Return decoded observations [T+1, B, ...]; one thread decodes each window."""
        size = (self._sequence.window_length + 1, len(windows))
        observation = self._memory((*size, *self._layout.observation_shape))
        columns = observation.numpy().swapaxes(0, 1)
        if self._pool and observation.nbytes >= _PARALLEL_BYTES and len(windows) > 1:
            for _ in self._pool.map(self._decode, columns, windows):
                pass
        else:
            for column, window in zip(columns, windows, strict=True):
                self._decode(column, window)
        return observation

    def _decode(self, column: np.ndarray, window: list[Block]) -> None:
        """Write the observations of one window to the rows of its column [T+1, ...]."""
        row = 0
        for block in window:
            # A block's last observation is the next block's first: it is written twice.
            rows = self._decoder.decode(block.observations, block.is_compressed)
            shape = (block.length + 1, *self._layout.observation_shape)
            column[row : row + block.length + 1] = np.frombuffer(
                rows, self._layout.observation_dtype
            ).reshape(shape)
            row += block.length
        column[row + 1 :] = 0

    def _memory(self, shape: tuple[int, ...]) -> Tensor:
        """Return uninitialised memory, reusing buffers of earlier batches that no one holds.

        Fresh pages cost as much time as decompression. Torch itself reuses pinned memory.
        """
        dtype = self._layout.observation_dtype
        if self._pin_memory:
            return torch.empty(shape, dtype=getattr(torch, dtype), pin_memory=True)
        try:
            buffer = self._spare.pop()
        except IndexError:
            buffer = None
        if buffer is None or buffer.shape != shape:
            buffer = np.empty(shape, dtype)
        loan = buffer.view()  # lives as long as any tensor over it
        weakref.finalize(loan, self._spare.append, buffer).atexit = False
        return torch.from_numpy(loan)
