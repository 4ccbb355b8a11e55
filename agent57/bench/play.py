"""Recorded play of real games, handed over as a player would, to measure the replay with."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from agent57.config import EnvConfig, ReplayConfig, SequenceConfig
from agent57.envs.make import make_env
from agent57.replay.assembler import Assembler
from agent57.replay.block import Layout
from agent57.replay.buffer import Replay
from agent57.types import Played

LAYOUT = Layout(
    observation_shape=(1, 84, 84),
    observation_dtype="uint8",
    num_actions=18,
    num_values=2,
    num_cores=2,
    state=512,
)
SEQUENCE = SequenceConfig()


@dataclass
class Recording:
    """Recorded steps of E lanes of one game, [E, steps, ...]."""

    observation: np.ndarray  # [E, steps + 1, ...]; the first of a new episode where one ended
    final_observation: dict[tuple[int, int], np.ndarray]  # by lane and step, where one ended
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


def record(game: str, num_lanes: int, num_steps: int, seed: int) -> Recording:
    """Play at random under the paper's preprocessing."""
    rng = np.random.default_rng(seed)
    env = make_env(EnvConfig(name=game), num_lanes)
    ended = np.ones(num_lanes, bool)
    rows = (num_lanes, num_steps)
    recording = Recording(
        observation=np.empty((num_lanes, num_steps + 1, *LAYOUT.observation_shape), np.uint8),
        final_observation={},
        action=rng.integers(env.spec.num_actions, size=rows),
        reward=np.zeros(rows, np.float32),
        terminated=np.zeros(rows, bool),
        truncated=np.zeros(rows, bool),
    )
    for t in range(num_steps):
        seeds = rng.integers(2**31, size=num_lanes)
        recording.observation[:, t] = env.reset(ended, seeds)
        step = env.step(recording.action[:, t])
        recording.reward[:, t] = step.reward
        recording.terminated[:, t] = step.terminated
        recording.truncated[:, t] = step.truncated
        recording.observation[:, t + 1] = step.observation
        ended = step.terminated | step.truncated
        for lane in np.flatnonzero(ended):
            recording.final_observation[int(lane), t] = step.observation[lane].copy()
    env.close()
    return recording


def folded(recording: Recording, pieces: int) -> Recording:
    """Each lane cut into pieces of equal length, side by side as lanes of their own."""
    num_steps = recording.action.shape[1] // pieces

    def fold(rows: np.ndarray, extra: int) -> np.ndarray:
        starts = np.arange(pieces)[:, None] * num_steps
        cut = rows[:, starts + np.arange(num_steps + extra)]  # [E, pieces, steps, ...]
        return cut.reshape(-1, *cut.shape[2:])

    finals = {
        (lane * pieces + t // num_steps, t % num_steps): observation
        for (lane, t), observation in recording.final_observation.items()
    }
    arrays = {
        field.name: fold(getattr(recording, field.name), extra=field.name == "observation")
        for field in dataclasses.fields(Recording)
        if field.name != "final_observation"
    }
    return Recording(final_observation=finals, **arrays)


def joined(recordings: list[Recording]) -> Recording:
    """The lanes of all recordings side by side."""
    finals, first = {}, 0
    for recording in recordings:
        for (lane, t), observation in recording.final_observation.items():
            finals[first + lane, t] = observation
        first += len(recording.action)
    arrays = {
        field.name: np.concatenate([getattr(r, field.name) for r in recordings])
        for field in dataclasses.fields(Recording)
        if field.name != "final_observation"
    }
    return Recording(final_observation=finals, **arrays)


class Rows:
    """A recording as a player would hand it over, again and again.

    Recurrent states are of the paper's size and random, so they do not compress.
    """

    def __init__(self, recording: Recording, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.num_lanes, self.num_steps = recording.action.shape
        self._recording = recording
        lanes, values = self.num_lanes, (LAYOUT.num_values, LAYOUT.num_actions)
        num_values, parts, size = LAYOUT.state_shape
        self._states = np.tanh(
            rng.normal(size=(8, num_values, parts, lanes, size)).astype(np.float32)
        )
        self._value = rng.normal(size=(values[0], lanes, values[1])).astype(np.float32)
        self._intrinsic = rng.gamma(1.0, size=(self.num_steps, lanes)).astype(np.float32)
        # time-major, as a player would produce them
        self.observation = np.ascontiguousarray(recording.observation.swapaxes(0, 1))

    def play(self, num_steps: int) -> Iterator[Played]:
        """Rows of all lanes; where the recording starts over, running episodes are truncated."""
        lanes, recording = self.num_lanes, self._recording
        zeros, arm = np.zeros(lanes, np.float32), np.zeros(lanes, np.int64)
        for n in range(num_steps):
            t = n % self.num_steps
            terminated, truncated = recording.terminated[:, t], recording.truncated[:, t]
            if t == self.num_steps - 1 and n < num_steps - 1:
                truncated = ~terminated
            following = self.observation[t + 1]
            for lane in np.flatnonzero(terminated):
                following = following.copy() if following.base is not None else following
                following[lane] = recording.final_observation[int(lane), t]
            action = recording.action[:, t]
            yield Played(
                observation=self.observation[t],
                previous_action=action,
                previous_extrinsic=zeros,
                previous_intrinsic=zeros,
                action=action,
                action_prob=np.full(lanes, 0.9, np.float32),
                extrinsic=recording.reward[:, t],
                intrinsic=self._intrinsic[t],
                terminated=terminated,
                truncated=truncated,
                next_observation=following,
                arm=arm,
                state=self._states[t % len(self._states)],
                value=self._value,
                final_value=self._value,
            )


def make_replay(config: ReplayConfig) -> Replay:
    """An empty replay of the paper's windows."""
    return Replay(config, SEQUENCE, LAYOUT, np.random.default_rng(0))


def make_assembler(config: ReplayConfig, num_lanes: int) -> Assembler:
    """An assembler whose windows have random priorities."""
    rng = np.random.default_rng(0)
    return Assembler(
        SEQUENCE,
        LAYOUT,
        num_lanes,
        lambda windows, _: torch.from_numpy(rng.exponential(size=len(windows.arm))),
        first_lane=0,
        compression=config.compression,
        threads=config.threads,
    )


def insert(play: Iterable[Played], replay: Replay, assembler: Assembler) -> None:
    """Play into the replay."""
    for played in play:
        for block in assembler.add(played):
            replay.add(block)
