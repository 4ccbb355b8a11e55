"""Reads a console's memory along a recorded episode, for statistics. No agent sees any of it.

The vector emulator does not show its memory. An episode is its seed and its actions, so a second
emulator plays it again and comes to the same states, bit for bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

from agent57.config import EnvConfig
from agent57.envs.atari import AtariEnv
from agent57.envs.spec import EpisodeRecord


@dataclass(frozen=True, kw_only=True)
class PlaceBytes:
    """The bytes that hold the room, and the player's column and height in it."""

    room: int
    x: int
    y: int


PLACE_BYTES = {"montezuma_revenge": PlaceBytes(room=3, x=42, y=43)}  # by game


class MemoryReader:
    """Plays recorded episodes of one game again, and reads their memory."""

    def __init__(self, config: EnvConfig) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._config = config
        rom = roms.get_rom_path(config.name)
        assert rom is not None, f"ale-py holds no ROM of {config.name}"
        self._rom = rom
        self._env = AtariEnv(config.name, 1, config)  # tells how many no-ops a seed begins with

    def bytes_of(self, record: EpisodeRecord, *indices: int) -> np.ndarray:
        """Return bytes of memory at the start of an episode and after each action, [T + 1, K]."""
        return np.array([memory[list(indices)] for memory in self._replay(record)], np.uint8)

    def _replay(self, record: EpisodeRecord) -> Iterator[np.ndarray]:
        emulator = ALEInterface()
        emulator.setInt("random_seed", record.seed)
        emulator.setFloat("repeat_action_probability", self._config.sticky_actions)
        emulator.loadROM(self._rom)
        emulator.reset_game()
        full = self._config.actions == "full"
        actions = emulator.getLegalActionSet() if full else emulator.getMinimalActionSet()
        self._env.reset(np.ones(1, bool), np.array([record.seed]))
        for _ in range(self._env.first_frames(0)):
            emulator.act(0)
        yield emulator.getRAM()
        for action in record.actions:
            for _ in range(self._config.frame_skip):
                emulator.act(actions[action])
            yield emulator.getRAM()

    def close(self) -> None:
        """Release the emulator."""
        self._env.close()


def places_visited(records: list[EpisodeRecord], config: EnvConfig) -> list[np.ndarray] | None:
    """Return room, x and y after each action of each episode; None where a game's are not known."""
    if config.name not in PLACE_BYTES:
        return None
    place = PLACE_BYTES[config.name]
    reader = MemoryReader(config)
    try:
        return [reader.bytes_of(record, place.room, place.x, place.y) for record in records]
    finally:
        reader.close()


def rooms_visited(records: list[EpisodeRecord], config: EnvConfig) -> list[set[int]] | None:
    """Return the rooms that each episode saw; None where a game's rooms are not known."""
    places = places_visited(records, config)
    if places is None:
        return None
    return [{int(room) for room in np.unique(visited[:, 0])} for visited in places]
