"""Lanes that play made-up episodes, which are kept whole."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from agent57.bench.play import LAYOUT
from agent57.config import SequenceConfig
from agent57.replay.assembler import Assembler
from agent57.replay.block import Block, Layout
from agent57.types import Played, Windows

PIXELS = replace(LAYOUT, observation_shape=(1, 16, 16), state=3)
VECTOR = Layout(
    observation_shape=(3,),
    observation_dtype="float32",
    num_actions=300,
    num_values=1,
    num_cores=1,
    state=2,
)
PAIR = SequenceConfig(trace_length=8, replay_period=4)  # windows of two blocks
SINGLE = SequenceConfig(trace_length=4, replay_period=4)
TRIPLE = SequenceConfig(trace_length=8, replay_period=4, burn_in=4)


def make_block(length: int = 3, **changes: Any) -> Block:
    """A block in the middle of an episode, whose steps are all zero."""
    made = Block(
        lane=0, episode=0, index=0, length=length, is_last=False, is_terminated=False, arm=0,
        observations=b"x" * 10, is_compressed=False, steps=np.zeros(length, PIXELS.step_dtype),
        previous_action=0, previous_extrinsic=0.0, previous_intrinsic=0.0,
        state=np.zeros(PIXELS.state_shape, np.float32), priority=1.0,
    )  # fmt: skip
    return replace(made, **changes)


@dataclass
class Episode:
    """One episode as it was played, row by row."""

    lane: int
    number: int
    arm: int
    rows: list[dict] = field(default_factory=list)
    final_observation: np.ndarray | None = None
    final_value: np.ndarray | None = None
    is_terminated: bool = False

    @property
    def length(self) -> int:
        return len(self.rows)


class Lanes:
    """E lanes whose episodes end on request; all rewards are different numbers."""

    def __init__(self, num_lanes: int, layout: Layout, seed: int = 0) -> None:
        self._layout = layout
        self._rng = np.random.default_rng(seed)
        self._count = 0
        self.num_lanes = num_lanes
        self.running: list[Episode] = []
        self.finished: list[Episode] = []
        for lane in range(num_lanes):
            self.running.append(self._begin(lane, 0))
        self._observation = [self._observe() for _ in range(num_lanes)]

    def _begin(self, lane: int, number: int) -> Episode:
        return Episode(lane=lane, number=number, arm=int(self._rng.integers(32)))

    def _observe(self) -> np.ndarray:
        shape = self._layout.observation_shape
        if self._layout.observation_dtype == "float32":
            return self._rng.normal(size=shape).astype(np.float32)
        observation = np.zeros(shape, np.uint8)  # compressible, and never all zero
        observation[..., : shape[-1] // 4] = self._rng.integers(1, 256)
        return observation

    def _row(self, lane: int) -> dict:
        layout, rows = self._layout, self.running[lane].rows
        before = rows[-1] if rows else {"action": 0, "extrinsic": 0.0, "intrinsic": 0.0}
        self._count += 1
        return {
            "observation": self._observation[lane],
            "previous_action": before["action"],
            "previous_extrinsic": before["extrinsic"],
            "previous_intrinsic": before["intrinsic"],
            "action": int(self._rng.integers(layout.num_actions)),
            "action_prob": np.float32(self._rng.uniform(0.1, 1.0)),
            "extrinsic": np.float32(self._count),
            "intrinsic": np.float32(self._rng.normal()),
            "state": self._rng.normal(size=layout.state_shape).astype(np.float32),
            "value": self._value(),
        }

    def _value(self) -> np.ndarray:
        shape = (self._layout.num_values, self._layout.num_actions)
        return self._rng.normal(size=shape).astype(np.float32)

    def step(self, terminate: tuple[int, ...] = (), truncate: tuple[int, ...] = ()) -> Played:
        """Play one row of all lanes, and end the episodes in the named lanes."""
        lanes = range(self.num_lanes)
        rows = [self._row(lane) for lane in lanes]
        next_observation = [self._observe() for _ in lanes]
        final_value = [self._value() for _ in lanes]
        arm = np.array([self.running[lane].arm for lane in lanes])
        for lane in lanes:
            episode = self.running[lane]
            episode.rows.append(rows[lane])
            self._observation[lane] = next_observation[lane]
            if lane in terminate or lane in truncate:
                episode.is_terminated = lane in terminate
                episode.final_observation = next_observation[lane]
                episode.final_value = final_value[lane]
                self.finished.append(episode)
                self.running[lane] = self._begin(lane, episode.number + 1)
                self._observation[lane] = self._observe()
        columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        columns["state"] = np.moveaxis(columns["state"], 0, 2)
        columns["value"] = np.moveaxis(columns["value"], 0, 1)
        return Played(
            **columns,
            terminated=np.isin(lanes, terminate),
            truncated=np.isin(lanes, truncate),
            next_observation=np.stack(next_observation),
            arm=arm,
            final_value=np.stack(final_value, axis=1),
        )


class Assembled(NamedTuple):
    """The blocks of an assembler, and the columns of each window that needed a priority."""

    blocks: list[Block]
    traces: list[dict[str, np.ndarray]]


class Watched(Assembler):
    """An assembler that keeps its windows; their priorities are the sums of their rewards."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._asked: list[dict[str, np.ndarray]] = []
        super().__init__(*args, self._note, **options)

    def _note(self, windows: Windows, value: torch.Tensor) -> torch.Tensor:
        for i in range(len(windows.arm)):
            column = {"arm": windows.arm[i], "start": windows.start[i], "value": value[:, :, i]}
            for name in Windows.__dataclass_fields__:
                column.setdefault(name, getattr(windows, name)[..., i])
            column["value"] = column["value"].swapaxes(0, 1)
            self._asked.append({name: tensor.numpy() for name, tensor in column.items()})
        return windows.extrinsic.double().sum(0)

    def add(self, played: Played) -> Assembled:
        self._asked = []
        return Assembled(super().add(played), self._asked)


def make_assembler(
    sequence: SequenceConfig, layout: Layout, num_lanes: int = 1, **options: int
) -> Watched:
    options = {"first_lane": 0, "compression": 1, "threads": 1, **options}
    return Watched(sequence, layout, num_lanes, **options)


def play_episode(
    lanes: Lanes, assembler: Watched, length: int, *, truncated: bool = False
) -> tuple[list[Block], list[dict]]:
    """Play one whole episode in a single lane; return its blocks and its windows."""
    blocks, traces = [], []
    for row in range(length):
        ends = (0,) if row == length - 1 else ()
        ended = {"truncate": ends} if truncated else {"terminate": ends}
        assembled = assembler.add(lanes.step(**ended))
        blocks += assembled.blocks
        traces += assembled.traces
    return blocks, traces
