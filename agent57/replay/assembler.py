"""Cuts the steps of E lanes into blocks, and gives each block the priority of its window.

A window is a run of consecutive blocks of one episode. A block completes at most one window: the
window that ends with it. If the episode ends before any window is full, its last block completes
the padded window that starts the episode. So every step of every episode is in some window, and no
window crosses the end of an episode.
"""

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent57.config import SequenceConfig
from agent57.replay.block import Block, Encoder, Layout
from agent57.types import Played, Windows

# From new windows and the player's outputs in them [O, T+1, N, A] to priorities [N].
Prioritise = Callable[[Windows, Tensor], Tensor]


class Assembler:
    """Takes rows of E lanes and returns blocks.

    A block in mid-episode comes out one step late, because its bootstrap observation gets its value
    in the next row. The last block of an episode comes out at once. `prioritise` computes the
    priorities of new windows. `first_lane` is the global index of lane 0. `threads` threads
    compress blocks that come out together.
    """

    def __init__(
        self,
        sequence: SequenceConfig,
        layout: Layout,
        num_lanes: int,
        prioritise: Prioritise,
        *,
        first_lane: int,
        compression: int,
        threads: int,
    ) -> None:
        self._sequence = sequence
        self._layout = layout
        self._prioritise = prioritise
        self._first_lane = first_lane
        self._encoder = Encoder(compression)
        self._pool = ThreadPoolExecutor(threads, "replay-compress") if threads > 1 else None

        lanes, period, blocks = num_lanes, sequence.replay_period, sequence.blocks_per_window
        values = (layout.num_values + layout.has_policy, layout.num_actions)
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
        # The last blocks of each lane; block k of an episode lies at k modulo the number of blocks.
        self._steps = np.zeros((lanes, blocks, period), layout.step_dtype)
        self._value = np.zeros((lanes, blocks, period, *values), np.float32)

    def add(self, played: Played) -> list[Block]:
        """Add one row of every lane; return the blocks that are complete now."""
        self._check(played)
        ended = played.terminated | played.truncated
        waiting = self._position == self._sequence.replay_period
        blocks, windows = self._emit(waiting, played.outputs, played, is_last=False)
        self._index[waiting] += 1
        self._position[waiting] = 0

        self._write(played, ended)
        self._position += 1

        last_blocks, last_windows = self._emit(ended, played.final_outputs, played, is_last=True)
        self._start_episode(ended)
        return self._prioritised(blocks + last_blocks, windows + last_windows)

    def _prioritised(self, blocks: list[Block], new: list[tuple[Windows, Tensor]]) -> list[Block]:
        """Return the blocks, each with the priority of the new window that it completes."""
        if not new:
            return blocks
        windows = Windows.joined([windows for windows, _ in new])
        outputs = torch.cat([outputs for _, outputs in new], dim=2)
        priorities = iter(self._prioritise(windows, outputs).tolist())
        return [
            dataclasses.replace(block, priority=next(priorities))
            if block.completes_window(self._sequence)
            else block
            for block in blocks
        ]

    @property
    def num_waiting(self) -> int:
        """Steps that were added but are in no block yet."""
        return int(self._position.sum())

    def abandon(self, lanes: np.ndarray) -> None:
        """Forget the running episodes in the lanes of the mask [E]; new ones start there."""
        self._start_episode(lanes & ((self._position > 0) | (self._index > 0)))

    def state_dict(self) -> dict[str, Any]:
        """Return the partial blocks and counters of all lanes."""
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
        steps = self._steps.view(np.uint8)  # tensors cannot have structured types
        return {name: getattr(self, f"_{name}") for name in names} | {"steps": steps}

    def _check(self, played: Played) -> None:
        if (played.terminated & played.truncated).any():
            raise ValueError("a lane is both terminated and truncated")
        if played.action.min() < 0 or played.action.max() >= self._layout.num_actions:
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
        cut = np.flatnonzero(ended | (row + 1 == self._sequence.replay_period))
        if len(cut):
            self._observation[cut, row[cut] + 1] = played.next_observation[cut]

        first = np.flatnonzero(row == 0)
        if len(first):
            self._arm[first] = played.arm[first]
            self._previous_action[first] = played.previous_action[first]
            self._previous_extrinsic[first] = played.previous_extrinsic[first]
            self._previous_intrinsic[first] = played.previous_intrinsic[first]
            self._state[first] = played.state[:, :, first].transpose(2, 0, 1, 3)

        place = (lanes, self._index % self._sequence.blocks_per_window, row)
        steps = np.empty(len(lanes), self._layout.step_dtype)
        for name in ("action", "action_prob", "extrinsic", "intrinsic"):
            steps[name] = getattr(played, name)
        self._steps[place] = steps
        self._value[place] = played.outputs.swapaxes(0, 1)

    def _emit(
        self,
        chosen: np.ndarray,
        next_value: np.ndarray,
        played: Played,
        *,
        is_last: bool,
    ) -> tuple[list[Block], list[tuple[Windows, Tensor]]]:
        """Cut the current blocks of the chosen lanes; return them and the windows they complete.

        `next_value` [O, E, A] holds the player's outputs of the bootstrap observations.
        """
        lanes = np.flatnonzero(chosen)
        if not len(lanes):
            return [], []
        is_terminated = played.terminated & is_last
        blocks = [
            self._block(lane, is_last, bool(is_terminated[lane]), *encoded)
            for lane, encoded in zip(lanes.tolist(), self._encode(lanes), strict=True)
        ]
        complete = lanes[[block.completes_window(self._sequence) for block in blocks]]
        if not len(complete):
            return blocks, []
        return blocks, [self._windows(complete, is_terminated[complete], next_value[:, complete])]

    def _encode(self, lanes: np.ndarray) -> list[tuple[bytes, bool]]:
        """Encode the observations of the lanes' current blocks."""
        rows = [self._observation[lane, : self._position[lane] + 1] for lane in lanes]
        run = map if self._pool is None or len(lanes) == 1 else self._pool.map
        return list(run(self._encoder.encode, rows))

    def _block(
        self, lane: int, is_last: bool, is_terminated: bool, observations: bytes, compressed: bool
    ) -> Block:
        index, length = int(self._index[lane]), int(self._position[lane])
        starts_window = not is_last or index == 0 or self._sequence.blocks_per_window == 1
        return Block(
            lane=self._first_lane + lane,
            episode=int(self._episode[lane]),
            index=index,
            length=length,
            is_last=is_last,
            is_terminated=is_terminated,
            arm=int(self._arm[lane]),
            observations=observations,
            is_compressed=compressed,
            steps=self._steps[lane, index % self._sequence.blocks_per_window, :length].copy(),
            previous_action=int(self._previous_action[lane]),
            previous_extrinsic=float(self._previous_extrinsic[lane]),
            previous_intrinsic=float(self._previous_intrinsic[lane]),
            state=self._state[lane].copy() if starts_window else None,
            priority=0.0,
        )

    def _windows(
        self, lanes: np.ndarray, is_terminated: np.ndarray, next_value: np.ndarray
    ) -> tuple[Windows, Tensor]:
        """Return the windows that end with the current blocks of N lanes, and the player's outputs.

        Outputs are [O, T+1, N, A], and 0 after the bootstrap row.
        """
        num_blocks, period = self._sequence.blocks_per_window, self._sequence.replay_period
        shape = (len(lanes), self._sequence.window_length)
        first = np.maximum(0, self._index[lanes] + 1 - num_blocks)
        length = (self._index[lanes] - first) * period + self._position[lanes]
        place = (lanes[:, None], (first[:, None] + np.arange(num_blocks)) % num_blocks)
        windows = Windows.padded(
            self._steps[place].reshape(shape),
            length,
            is_terminated,
            arm=self._arm[lanes],
            start=first * period,
        )
        values = self._value.shape[3:]
        value = np.zeros((len(lanes), shape[1] + 1, *values), np.float32)
        value[:, :-1] = self._value[place].reshape(*shape, *values)
        value[:, :-1][~windows.mask.numpy().T] = 0
        bootstrap = np.where(is_terminated[:, None, None], 0, next_value.swapaxes(0, 1))
        value[np.arange(len(lanes)), length] = bootstrap
        return windows, torch.from_numpy(value.transpose(2, 1, 0, 3).copy())
