"""Windows of blocks to batches of the learner: the one place where time becomes the first axis."""

import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from agent57.config import SequenceConfig
from agent57.replay.block import Block, Layout
from agent57.replay.codec import Decoder
from agent57.types import Batch

_PARALLEL_BYTES = 1 << 20  # of observations in a batch; less is not worth waking other threads
_SPARE_BUFFERS = 2  # of observations, kept for the next batches


class WindowReader:
    """Decodes windows, several at once, into time-major tensors (pinned if asked for)."""

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
        """One batch of these windows, in their order."""
        batch = self._allocate(len(windows))
        batch.key.numpy()[:] = keys
        batch.probability.numpy()[:] = probability
        rows = _Rows(batch, self._layout, self._decoder)
        parallel = batch.observation.nbytes >= _PARALLEL_BYTES and len(windows) > 1
        if self._pool and parallel:
            for _ in self._pool.map(rows.fill, range(len(windows)), windows):
                pass
        else:
            for column, window in enumerate(windows):
                rows.fill(column, window)
        for column, window in enumerate(windows):
            batch.arm[column] = window[0].arm
            batch.start[column] = window[0].index * self._sequence.replay_period
        return batch

    def _allocate(self, size: int) -> Batch:
        steps, layout = self._sequence.window_length, self._layout
        num_values, parts, units = layout.state_shape
        return Batch(
            # Every row is written below: real ones decoded, the others set to zero.
            observation=self._observation((steps + 1, size, *layout.observation_shape)),
            previous_action=self._filled((steps + 1, size), "int64", 0),
            previous_extrinsic=self._filled((steps + 1, size), "float32", 0),
            previous_intrinsic=self._filled((steps + 1, size), "float32", 0),
            action=self._filled((steps, size), "int64", 0),
            action_prob=self._filled((steps, size), "float32", 1),
            extrinsic=self._filled((steps, size), "float32", 0),
            intrinsic=self._filled((steps, size), "float32", 0),
            discount=self._filled((steps, size), "float32", 0),
            mask=self._filled((steps, size), "bool", 0),
            arm=self._filled((size,), "int64", 0),
            start=self._filled((size,), "int64", 0),
            state=self._empty((num_values, parts, size, units), "float32"),
            key=self._filled((size,), "int64", 0),
            probability=self._filled((size,), "float64", 0),
        )

    def _empty(self, shape: tuple[int, ...], dtype: str) -> Tensor:
        return torch.empty(shape, dtype=getattr(torch, dtype), pin_memory=self._pin_memory)

    def _observation(self, shape: tuple[int, ...]) -> Tensor:
        """Fresh pages cost as much as decompression, so memory is taken from batches now gone.

        (Pinned memory is kept by torch's own allocator.)
        """
        if self._pin_memory:
            return self._empty(shape, self._layout.observation_dtype)
        try:
            buffer = self._spare.pop()
        except IndexError:
            buffer = None
        if buffer is None or buffer.shape != shape:
            buffer = np.empty(shape, self._layout.observation_dtype)
        loan = buffer.view()  # lives as long as any tensor over it
        weakref.finalize(loan, self._spare.append, buffer).atexit = False
        return torch.from_numpy(loan)

    def _filled(self, shape: tuple[int, ...], dtype: str, fill: float) -> Tensor:
        return self._empty(shape, dtype).fill_(fill)


class _Rows:
    """The columns of one batch while they are filled; different columns from different threads."""

    def __init__(self, batch: Batch, layout: Layout, decoder: Decoder) -> None:
        self._layout = layout
        self._decoder = decoder
        self._observation = batch.observation.numpy()
        self._previous = [
            batch.previous_action.numpy(),
            batch.previous_extrinsic.numpy(),
            batch.previous_intrinsic.numpy(),
        ]
        self._steps = {
            "action": batch.action.numpy(),
            "extrinsic": batch.extrinsic.numpy(),
            "intrinsic": batch.intrinsic.numpy(),
            "action_prob": batch.action_prob.numpy(),
        }
        self._discount = batch.discount.numpy()
        self._mask = batch.mask.numpy()
        self._state = batch.state.numpy()

    def fill(self, column: int, window: list[Block]) -> None:
        """Write one window into its column."""
        first, last = window[0], window[-1]
        action, extrinsic, intrinsic = self._previous
        action[0, column] = first.previous_action
        extrinsic[0, column] = first.previous_extrinsic
        intrinsic[0, column] = first.previous_intrinsic
        self._state[:, :, column] = first.state

        row = 0
        for block in window:
            end = row + block.length
            # A block's last observation is the first of the next one: written twice, the same.
            self._observation[row : end + 1, column] = self._observations(block)
            for name, target in self._steps.items():
                target[row:end, column] = block.steps[name]
            action[row + 1 : end + 1, column] = block.steps["action"]
            extrinsic[row + 1 : end + 1, column] = block.steps["extrinsic"]
            intrinsic[row + 1 : end + 1, column] = block.steps["intrinsic"]
            row = end
        self._observation[row + 1 :, column] = 0
        self._mask[:row, column] = True
        self._discount[:row, column] = 1
        if last.is_terminated:
            self._discount[row - 1, column] = 0

    def _observations(self, block: Block) -> np.ndarray:
        rows = self._decoder.decode(block.observations, block.is_compressed)
        return np.frombuffer(rows, self._layout.observation_dtype).reshape(
            block.length + 1, *self._layout.observation_shape
        )
