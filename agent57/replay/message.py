"""Blocks as messages, and a check of blocks that come from another process or a file.

Actors send messages and checkpoints store them.
"""

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import zstandard

if TYPE_CHECKING:
    from agent57.replay.block import Block, Layout

_FORMAT_VERSION = 1
_MAGIC = b"A57B"
# magic, version, lane, episode, index, length, flags, bytes per action, arm, previous action,
# previous extrinsic, previous intrinsic, priority, C and H of the state, bytes of observations
_HEADER = struct.Struct("<4sHqqIIBBIIffdHIQ")
_LAST, _TERMINATED, _COMPRESSED = 1, 2, 4


def _step_dtype(action: str) -> np.dtype[Any]:
    return np.dtype(
        [("extrinsic", "<f4"), ("intrinsic", "<f4"), ("action_prob", "<f4"), ("action", action)]
    )


# All blocks share these types, because a separate structured dtype takes a kilobyte per block.
STEP_DTYPES = {1: _step_dtype("<u1"), 2: _step_dtype("<u2"), 4: _step_dtype("<u4")}


def pack(block: "Block") -> bytes:
    """Return everything in a block as one versioned message."""
    flags = block.is_last * _LAST + block.is_terminated * _TERMINATED
    flags += block.is_compressed * _COMPRESSED
    num_cores, _, size = (0, 0, 0) if block.state is None else block.state.shape
    header = _HEADER.pack(
        _MAGIC, _FORMAT_VERSION, block.lane, block.episode, block.index, block.length, flags,
        block.steps.dtype["action"].itemsize, block.arm, block.previous_action,
        block.previous_extrinsic, block.previous_intrinsic, block.priority, num_cores, size,
        len(block.observations),
    )  # fmt: skip
    state = b"" if block.state is None else block.state.tobytes()
    return b"".join((header, block.observations, block.steps.tobytes(), state))


def unpack(message: bytes) -> dict[str, Any]:
    """Return the fields of the block that `pack` was given; refuse any other message."""
    if len(message) < _HEADER.size or message[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not a replay block")
    (
        _, version, lane, episode, index, length, flags, action_bytes, arm, previous_action,
        previous_extrinsic, previous_intrinsic, priority, num_cores, size, observation_bytes,
    ) = _HEADER.unpack_from(message)  # fmt: skip
    if version != _FORMAT_VERSION:
        raise ValueError(f"replay block of version {version}, this agent57 reads version 1")
    dtype = STEP_DTYPES[action_bytes]
    ends = np.cumsum(
        [_HEADER.size, observation_bytes, length * dtype.itemsize, num_cores * 2 * size * 4]
    ).tolist()
    if len(message) != ends[-1]:
        raise ValueError(f"replay block of {len(message)} bytes, expected {ends[-1]}")
    # Slices of bytes are copies, so dropping the state frees its memory.
    state = np.frombuffer(message[ends[2] : ends[3]], "<f4").reshape(num_cores, 2, size)
    return {
        "lane": lane,
        "episode": episode,
        "index": index,
        "length": length,
        "is_last": bool(flags & _LAST),
        "is_terminated": bool(flags & _TERMINATED),
        "arm": arm,
        "observations": message[ends[0] : ends[1]],
        "is_compressed": bool(flags & _COMPRESSED),
        "steps": np.frombuffer(message[ends[1] : ends[2]], dtype),
        "previous_action": previous_action,
        "previous_extrinsic": previous_extrinsic,
        "previous_intrinsic": previous_intrinsic,
        "state": state if num_cores else None,
        "priority": priority,
    }


def check_block(block: "Block", layout: "Layout", period: int) -> None:
    """Raise ValueError unless the block holds what a run with this layout stores.

    Called before anything is decompressed: a forged block may claim any size.
    """
    shape = layout.observation_shape
    row_bytes = math.prod(shape) * np.dtype(layout.observation_dtype).itemsize
    raw_bytes = len(block.observations)
    if block.is_compressed:
        try:
            raw_bytes = zstandard.get_frame_parameters(block.observations).content_size
        except zstandard.ZstdError:
            raw_bytes = 0
    fits = (
        0 < block.length <= period
        and raw_bytes == (block.length + 1) * row_bytes
        and block.steps.dtype == layout.step_dtype
        and (block.state is None or block.state.shape == layout.state_shape)
        and bool((block.steps["action"] < layout.num_actions).all())
    )
    if not fits:
        raise ValueError(f"block {block.index} of episode {block.episode} does not fit the run")
