"""Store of blocks, and a reader that turns windows of blocks into batches.

The store is a ring of slots in order of arrival, with links along each episode. The ids of stored
blocks (live ids) are consecutive, so block i lies at slot i modulo the number of slots. The number
of slots is a power of two and doubles when all slots are taken.
"""

import dataclasses
import weakref
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent57.config import SequenceConfig
from agent57.replay.block import Block, Decoder, Layout
from agent57.types import Batch, Windows

_FIRST_SLOTS = 64
_NO_BLOCK = -1
_PARALLEL_BYTES = 1 << 20  # bytes of observations in a batch that justify waking other threads
_SPARE_BUFFERS = 2  # observation buffers kept for the next batches


@dataclasses.dataclass(slots=True)
class _Run:
    """The running episode of one lane: its last `sequence.blocks_per_window` blocks."""

    episode: int
    index: int  # of the newest block
    ids: list[int]


class BlockStore:
    """Blocks of many lanes, first in, first out, at most `capacity` transitions."""

    def __init__(self, sequence: SequenceConfig, capacity: int) -> None:
        self._sequence = sequence
        self._capacity = capacity
        self._clear(_FIRST_SLOTS)

    def _clear(self, num_slots: int) -> None:
        self._blocks: list[Block | None] = [None] * num_slots
        self._following = np.full(num_slots, _NO_BLOCK, np.int64)  # id of the episode's next block
        self._runs: dict[int, _Run] = {}  # by lane
        self.live_ids = range(0)  # oldest first
        self.num_transitions = 0  # steps held, each counted once
        self._block_bytes = 0

    @property
    def num_slots(self) -> int:
        """Number of places for blocks, a power of two."""
        return len(self._blocks)

    @property
    def num_bytes(self) -> int:
        """Memory of the blocks and their slots."""
        return self._block_bytes + self._following.nbytes + 8 * self.num_slots

    def block(self, block_id: int) -> Block:
        """Return a stored block."""
        block = self._blocks[block_id % self.num_slots]
        assert block is not None
        return block

    def window(self, first_id: int) -> list[Block]:
        """Return the blocks of the window that starts with a block, as far as they have arrived."""
        window = [self.block(first_id)]
        while len(window) < self._sequence.blocks_per_window:
            first_id = int(self._following[first_id % self.num_slots])
            if first_id == _NO_BLOCK:
                break
            window.append(self.block(first_id))
        return window

    def add(self, block: Block, *, allow_gap: bool = False) -> int | None:
        """Store a block, and evict the oldest ones beyond capacity.

        Return the id of the first block of the window that is complete now, if there is one. A
        block that does not continue its episode is an error. With `allow_gap` it is accepted, and
        windows begin anew with it.
        """
        self._check_length(block)
        run = self._continued(block, allow_gap)
        if len(self.live_ids) == self.num_slots:
            self._grow()
        self._insert(block, run)
        self._evict()
        is_whole = (
            len(run.ids) == self._sequence.blocks_per_window or len(run.ids) == block.index + 1
        )
        is_complete = block.completes_window(self._sequence) and is_whole
        return run.ids[0] if is_complete and run.ids[0] in self.live_ids else None

    def state_dict(self) -> dict[str, Any]:
        """Return everything except the blocks."""
        slots = np.array(self.live_ids, np.int64) % self.num_slots
        return {
            "num_slots": self.num_slots,
            "oldest_id": self.live_ids.start,
            "next_id": self.live_ids.stop,
            "following": torch.from_numpy(self._following[slots]),
            "has_state": torch.tensor([self.block(i).state is not None for i in self.live_ids]),
            "runs": {lane: dataclasses.asdict(run) for lane, run in self._runs.items()},
        }

    def load_state_dict(self, state: dict[str, Any], blocks: Iterable[tuple[int, Block]]) -> None:
        """Continue where `state_dict` was taken, given the blocks of that time, oldest first."""
        self._clear(state["num_slots"])
        self.live_ids = range(state["oldest_id"], state["next_id"])
        expected = zip(self.live_ids, state["has_state"].tolist(), strict=True)
        for (block_id, has_state), (given_id, block) in zip(expected, blocks, strict=True):
            if given_id != block_id:
                raise ValueError(f"replay block {block_id} is missing, got {given_id}")
            kept = block if has_state else dataclasses.replace(block, state=None)
            self._blocks[block_id % self.num_slots] = kept
            self.num_transitions += kept.length
            self._block_bytes += kept.num_bytes
        slots = np.array(self.live_ids, np.int64) % self.num_slots
        self._following[slots] = state["following"].numpy()
        self._runs = {lane: _Run(**run) for lane, run in state["runs"].items()}

    def check_valid(self, window_ids: Iterable[int]) -> None:
        """Raise AssertionError if blocks, counters and these windows contradict each other."""
        held = [self.block(i) for i in self.live_ids]
        _check(sum(block is not None for block in self._blocks) == len(held), "stray blocks")
        _check(sum(b.length for b in held) == self.num_transitions, "num_transitions is wrong")
        _check(self.num_transitions <= self._capacity, "more than capacity is held")
        _check(sum(b.num_bytes for b in held) == self._block_bytes, "num_bytes is wrong")
        for window_id in window_ids:
            _check(window_id in self.live_ids, "a window without its first block")
            self._check_window(self.window(window_id))

    def _check_window(self, window: list[Block]) -> None:
        first, last = window[0], window[-1]
        is_whole = len(window) == self._sequence.blocks_per_window
        _check(is_whole or (first.index == 0 and last.is_last), "a window is cut short")
        _check(first.state is not None, "a window without its recurrent state")
        for offset, block in enumerate(window):
            place = (first.lane, first.episode, first.index + offset)
            _check(
                (block.lane, block.episode, block.index) == place,
                "a window of blocks that are not consecutive",
            )
            is_full = block.length == self._sequence.replay_period and not block.is_last
            _check(is_full or block is last, "a gap inside a window")

    def _check_length(self, block: Block) -> None:
        if not 0 < block.length <= self._sequence.replay_period or len(block.steps) != block.length:
            raise ValueError(f"{_name(block)} has {block.length} steps")
        if block.length < self._sequence.replay_period and not block.is_last:
            raise ValueError(f"{_name(block)} is cut short in mid-episode")

    def _continued(self, block: Block, allow_gap: bool) -> _Run:
        """Return the running episode that the block continues, or a new episode."""
        if block.index == 0:
            self._drop_states(self._runs.pop(block.lane, None))  # of an unfinished episode
            return _Run(block.episode, -1, [])
        run = self._runs.get(block.lane)
        if run is None or (run.episode, run.index + 1) != (block.episode, block.index):
            if allow_gap:
                self._drop_states(self._runs.pop(block.lane, None))
                return _Run(block.episode, block.index - 1, [])
            known = f"after block {run.index} of episode {run.episode}" if run else "as the first"
            raise ValueError(f"{_name(block)} came {known}")
        return run

    def _insert(self, block: Block, run: _Run) -> None:
        block_id = self.live_ids.stop
        slot = block_id % self.num_slots
        self.live_ids = range(self.live_ids.start, block_id + 1)
        self._blocks[slot] = block
        self._following[slot] = _NO_BLOCK
        self.num_transitions += block.length
        self._block_bytes += block.num_bytes
        if run.ids and run.ids[-1] in self.live_ids:
            self._following[run.ids[-1] % self.num_slots] = block_id
        run.index = block.index
        run.ids = [*run.ids, block_id][-self._sequence.blocks_per_window :]
        self._runs[block.lane] = run
        if block.is_last:
            self._drop_states(self._runs.pop(block.lane))

    def _drop_states(self, ended: _Run | None) -> None:
        """Forget the states of an ended episode's last blocks, where no window can start."""
        for block_id in ended.ids[1:] if ended else []:
            if block_id in self.live_ids:
                block = self.block(block_id)
                stateless = dataclasses.replace(block, state=None)
                self._blocks[block_id % self.num_slots] = stateless
                self._block_bytes += stateless.num_bytes - block.num_bytes

    def _evict(self) -> None:
        while self.num_transitions > self._capacity:
            oldest = self.live_ids.start
            block = self.block(oldest)
            self.num_transitions -= block.length
            self._block_bytes -= block.num_bytes
            self._blocks[oldest % self.num_slots] = None
            self.live_ids = range(oldest + 1, self.live_ids.stop)

    def _grow(self) -> None:
        """Double the slots and move every block to its new place."""
        blocks: list[Block | None] = [None] * (2 * self.num_slots)
        for block_id in self.live_ids:
            blocks[block_id % len(blocks)] = self.block(block_id)
        ids = np.array(self.live_ids, np.int64)
        following = np.full(len(blocks), _NO_BLOCK, np.int64)
        following[ids % len(blocks)] = self._following[ids % self.num_slots]
        self._blocks, self._following = blocks, following


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
        return Windows.padded(
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


def _name(block: Block) -> str:
    return f"replay block {block.index} of episode {block.episode} of lane {block.lane}"


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(f"replay is corrupt: {message}")
