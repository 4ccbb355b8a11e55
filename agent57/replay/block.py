"""A block of steps, and the encoding of its observations as bytes.

A block holds up to `sequence.replay_period` consecutive steps of one episode. Actors send blocks
and the replay stores them. A block is complete: it also holds the bootstrap observation, the inputs
of its first row and the recurrent state before this row. So a window may start at any block, and
any block may be evicted.

Images shrink well under zstd when consecutive frames are compressed together. Vectors and tiny
observations do not shrink, and are kept raw.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import zstandard

from agent57.config import SequenceConfig
from agent57.nets.networks import Networks
from agent57.replay.message import STEP_DTYPES, pack, unpack
from agent57.types import EnvSpec

_MIN_BYTES = 1024  # below this, compression does not pay for its time
_MIN_SAVING = 0.1  # share of the raw size; with a smaller saving the raw bytes are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The shapes of stored data."""

    observation_shape: tuple[int, ...]
    observation_dtype: Literal["uint8", "float32"]
    num_actions: int
    num_values: int  # V
    has_policy: bool = False  # whether logits of a policy come with the values
    num_cores: int  # C
    state: int  # H, 0 without a recurrent core

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """Shape of a lane's recurrent state: [C, 2, H]."""
        return (self.num_cores, 2, self.state)

    @property
    def step_dtype(self) -> np.dtype[Any]:
        """Type of a packed step: float32 rewards and probability, the smallest integer action."""
        largest = self.num_actions - 1
        return STEP_DTYPES[1 if largest < 2**8 else 2 if largest < 2**16 else 4]


def make_layout(spec: EnvSpec, networks: Networks) -> Layout:
    """Return the shapes of the data that a run of these networks on a task stores."""
    return Layout(
        observation_shape=spec.observation_shape,
        observation_dtype=spec.observation_dtype,
        num_actions=spec.num_actions,
        num_values=networks.num_values,
        has_policy=networks.value.policy is not None,
        num_cores=networks.num_cores,
        state=networks.state_size,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Consecutive steps of one episode of one lane; see `types` for the alignment of rows."""

    lane: int  # global index
    episode: int  # of this lane
    index: int  # of this block in its episode; all blocks before it hold `replay_period` steps
    length: int  # steps, 1 to `replay_period`
    is_last: bool  # the episode ended with this block's last step
    is_terminated: bool  # the episode terminated with it, and was not truncated
    arm: int
    observations: bytes  # length + 1 observations, the last one for bootstrapping
    is_compressed: bool  # with zstd, otherwise raw
    steps: np.ndarray  # [length] of `Layout.step_dtype`
    previous_action: int  # inputs of the first row
    previous_extrinsic: float
    previous_intrinsic: float
    state: (
        np.ndarray | None
    )  # [C, 2, H] float32 before the first row; None if no window starts here
    priority: float  # of the window that this block completes, before the exponent; 0 if none

    @property
    def num_bytes(self) -> int:
        """Memory of this block: its arrays and the Python objects around them."""
        state = 0 if self.state is None else _ARRAY_BYTES + self.state.nbytes
        return _OBJECT_BYTES + len(self.observations) + _ARRAY_BYTES + self.steps.nbytes + state

    def completes_window(self, sequence: SequenceConfig) -> bool:
        """Whether a window ends with this block: enough blocks precede it, or the episode ends."""
        return self.is_last or self.index >= sequence.blocks_per_window - 1

    def to_bytes(self) -> bytes:
        """Return the block as one versioned message."""
        return pack(self)

    @classmethod
    def from_bytes(cls, message: bytes) -> Self:
        """Return the block that `to_bytes` wrote; any other message is a ValueError."""
        return cls(**unpack(message))

    def __reduce__(self) -> tuple[Callable[[bytes], "Block"], tuple[bytes]]:
        """Pickle as the message, which is smaller and keeps the step dtype shared."""
        return _read, (self.to_bytes(),)


def _read(message: bytes) -> Block:
    """Read a pickled block. A plain function, because some picklers cannot refer to a method."""
    return Block.from_bytes(message)


_ARRAY_BYTES = sys.getsizeof(np.empty((0, 0, 0)))
_NUMBER_BYTES = 150  # Python number objects and the header of the observations, as measured
_OBJECT_BYTES = Block.__basicsize__ + _NUMBER_BYTES


class Encoder(threading.local):
    """Turns consecutive observations into bytes. Any number of threads may share one.

    Each thread has its own compressor, because two threads may not use the same one at once.
    """

    def __init__(self, level: int) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level)

    def encode(self, observations: np.ndarray) -> tuple[bytes, bool]:
        """Return the observations as bytes, and whether the bytes are compressed."""
        rows = np.ascontiguousarray(observations)
        if rows.dtype != np.uint8 or rows.nbytes < _MIN_BYTES:
            return rows.tobytes(), False
        compressed = self._compressor.compress(rows.data)
        if len(compressed) > (1 - _MIN_SAVING) * rows.nbytes:
            return rows.tobytes(), False
        # The compressor's result occupies a buffer of the raw size. A copy of the exact size leaves
        # no holes in the memory of a full replay.
        return bytes(memoryview(compressed)), True


class Decoder(threading.local):
    """Turns an `Encoder`'s bytes of any level back. Any number of threads may share one."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor()

    def decode(self, encoded: bytes, is_compressed: bool) -> bytes:
        """Return the raw bytes of the observations that `encode` was given."""
        return self._decompressor.decompress(encoded) if is_compressed else encoded
