"""Cuts what E lanes play into blocks, and keeps what the first priority of a window is made of.

A window is `sequence.blocks` consecutive blocks of one episode, and each block completes at most
one: block k the window that starts `sequence.blocks - 1` blocks before it, or, if the episode ends
before any window is full, its last block the padded window that starts the episode. So every step
of every episode is in some window, and no window crosses an episode's end.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from agent57.config import SequenceConfig
from agent57.replay.block import Block, Layout
from agent57.replay.codec import Encoder
from agent57.types import Played


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTrace:
    """What the initial priority of one window is computed from, padded as in `types.Batch`."""

    value: np.ndarray  # [V, T+1, A] float32, as the player saw it; 0 after the bootstrap row
    action: np.ndarray  # [T] int64
    action_prob: np.ndarray  # [T] float32
    extrinsic: np.ndarray  # [T] float32
    intrinsic: np.ndarray  # [T] float32
    discount: np.ndarray  # [T] float32
    mask: np.ndarray  # [T] bool
    arm: int
    start: int  # agent steps of the episode before the first row


class Assembled(NamedTuple):
    """A block whose priority is still 0, and the window it completes."""

    block: Block
    trace: WindowTrace | None  # None if it completes no window


class Assembler:
    """Rows of E lanes in, blocks out.

    A block in the midst of an episode comes out one step late, with the row that brings the value
    of its bootstrap observation; the last block of an episode at once. `first_lane` is the global
    index of lane 0; `threads` compress the blocks of lanes that come out together.
    """

    def __init__(
        self,
        sequence: SequenceConfig,
        layout: Layout,
        num_lanes: int,
        *,
        first_lane: int,
        compression: int,
        threads: int,
    ) -> None:
        self._sequence = sequence
        self._layout = layout
        self._first_lane = first_lane
        self._encoder = Encoder(compression)
        self._pool = ThreadPoolExecutor(threads, "replay-compress") if threads > 1 else None

        lanes, period, blocks = num_lanes, sequence.period, sequence.blocks
        values = (layout.num_values, layout.num_actions)
        self._lanes = np.arange(lanes)
        self._episode = np.zeros(lanes, np.int64)
        self._index = np.zeros(lanes, np.int64)  # of the current block in its episode
        self._position = np.zeros(lanes, np.int64)  # rows in the current block
        self._arm = np.zeros(lanes, np.int64)
        self._previous_action = np.zeros(lanes, np.int64)  # of the current block's first row
        self._previous_extrinsic = np.zeros(lanes, np.float32)
        self._previous_intrinsic = np.zeros(lanes, np.float32)
        self._state = np.zeros((lanes, *layout.state_shape), np.float32)
        self._observation = np.zeros(
            (lanes, period + 1, *layout.observation_shape), layout.observation_dtype
        )
        # The last blocks of each lane; block k of an episode lies at k modulo `sequence.blocks`.
        self._steps = np.zeros((lanes, blocks, period), layout.step_dtype)
        self._value = np.zeros((lanes, blocks, period, *values), np.float32)

    def add(self, played: Played) -> list[Assembled]:
        """Take one row of every lane; the blocks that are complete now."""
        self._check(played)
        ended = played.terminated | played.truncated
        waiting = self._position == self._sequence.period
        assembled = self._emit(waiting, played.value, played, is_last=False)
        self._index[waiting] += 1
        self._position[waiting] = 0

        self._write(played, ended)
        self._position += 1

        assembled += self._emit(ended, played.final_value, played, is_last=True)
        self._start_episode(ended)
        return assembled

    @property
    def num_waiting(self) -> int:
        """Steps taken that no block holds yet."""
        return int(self._position.sum())

    def abandon(self, lanes: np.ndarray) -> None:
        """Forget the running episodes in the lanes of the mask [E]; new ones start there."""
        self._start_episode(lanes & ((self._position > 0) | (self._index > 0)))

    def state_dict(self) -> dict[str, Any]:
        """The partial blocks and counters of all lanes."""
        return {name: torch.from_numpy(array.copy()) for name, array in self._arrays().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        for name, array in self._arrays().items():
            saved = state[name].numpy()
            if saved.shape != array.shape:
                raise ValueError(
                    f"assembler state {name} has shape {saved.shape}, expected {array.shape}"
                )
            array[...] = saved

    def _arrays(self) -> dict[str, np.ndarray]:
        names = (
            "episode", "index", "position", "arm", "previous_action", "previous_extrinsic",
            "previous_intrinsic", "state", "observation", "value",
        )  # fmt: skip
        steps = self._steps.view(np.uint8)  # tensors know no structured types
        return {name: getattr(self, f"_{name}") for name in names} | {"steps": steps}

    def _check(self, played: Played) -> None:
        if (played.terminated & played.truncated).any():
            raise ValueError("a lane is both terminated and truncated")
        if ((played.action < 0) | (played.action >= self._layout.num_actions)).any():
            raise ValueError(
                f"actions must lie in [0, {self._layout.num_actions}), got {played.action}"
            )

    def _start_episode(self, lanes: np.ndarray) -> None:
        self._episode[lanes] += 1
        self._index[lanes] = 0
        self._position[lanes] = 0

    def _write(self, played: Played, ended: np.ndarray) -> None:
        lanes, row = self._lanes, self._position
        self._observation[lanes, row] = played.observation
        cut = np.flatnonzero(ended | (row + 1 == self._sequence.period))
        self._observation[cut, row[cut] + 1] = played.next_observation[cut]

        first = np.flatnonzero(row == 0)
        self._arm[first] = played.arm[first]
        self._previous_action[first] = played.previous_action[first]
        self._previous_extrinsic[first] = played.previous_extrinsic[first]
        self._previous_intrinsic[first] = played.previous_intrinsic[first]
        self._state[first] = played.state[:, :, first].transpose(2, 0, 1, 3)

        place = (lanes, self._index % self._sequence.blocks, row)
        for name in ("action", "action_prob", "extrinsic", "intrinsic"):
            self._steps[name][place] = getattr(played, name)
        self._value[place] = played.value.swapaxes(0, 1)

    def _emit(
        self, chosen: np.ndarray, next_value: np.ndarray, played: Played, *, is_last: bool
    ) -> list[Assembled]:
        """The current blocks of the lanes in the mask; `next_value` [V, E, A] to bootstrap from."""

        def build(lane: int) -> Assembled:
            is_terminated = is_last and bool(played.terminated[lane])
            bootstrap = 0.0 if is_terminated else next_value[:, lane]
            block = self._block(lane, is_last, is_terminated)
            completes = block.completes_window(self._sequence)
            trace = self._trace(lane, block, bootstrap) if completes else None
            return Assembled(block, trace)

        lanes = np.flatnonzero(chosen).tolist()
        apply: Callable[..., Any] = self._pool.map if self._pool and len(lanes) > 1 else map
        return list(apply(build, lanes))

    def _block(self, lane: int, is_last: bool, is_terminated: bool) -> Block:
        index, length = int(self._index[lane]), int(self._position[lane])
        observations, is_compressed = self._encoder.encode(self._observation[lane, : length + 1])
        starts_window = not is_last or index == 0 or self._sequence.blocks == 1
        return Block(
            lane=self._first_lane + lane,
            episode=int(self._episode[lane]),
            index=index,
            length=length,
            is_last=is_last,
            is_terminated=is_terminated,
            arm=int(self._arm[lane]),
            observations=observations,
            is_compressed=is_compressed,
            steps=self._steps[lane, index % self._sequence.blocks, :length].copy(),
            previous_action=int(self._previous_action[lane]),
            previous_extrinsic=float(self._previous_extrinsic[lane]),
            previous_intrinsic=float(self._previous_intrinsic[lane]),
            state=self._state[lane].copy() if starts_window else None,
            priority=0.0,
        )

    def _trace(self, lane: int, block: Block, bootstrap: np.ndarray | float) -> WindowTrace:
        first = max(0, block.index + 1 - self._sequence.blocks)
        places = np.arange(first, block.index + 1) % self._sequence.blocks
        rows = (block.index - first) * self._sequence.period + block.length
        steps = self._steps[lane, places].reshape(-1)[:rows]

        window = self._sequence.window
        value = np.zeros(
            (self._layout.num_values, window + 1, self._layout.num_actions), np.float32
        )
        seen = self._value[lane, places].reshape(-1, *self._value.shape[3:])[:rows]
        value[:, :rows] = seen.swapaxes(0, 1)
        value[:, rows] = bootstrap
        is_real = np.arange(window) < rows
        discount = is_real.astype(np.float32)
        discount[rows - 1] = not block.is_terminated
        return WindowTrace(
            value=value,
            action=_padded(steps["action"], window, np.int64, 0),
            action_prob=_padded(steps["action_prob"], window, np.float32, 1),
            extrinsic=_padded(steps["extrinsic"], window, np.float32, 0),
            intrinsic=_padded(steps["intrinsic"], window, np.float32, 0),
            discount=discount,
            mask=is_real,
            arm=block.arm,
            start=first * self._sequence.period,
        )


def _padded(column: np.ndarray, length: int, dtype: type, padding: float) -> np.ndarray:
    padded: np.ndarray = np.full(length, padding, dtype)
    padded[: len(column)] = column
    return padded
