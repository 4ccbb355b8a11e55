"""Reads a console's memory during a recorded episode, for statistics. No agent sees this memory.

The vector emulator does not show its memory. So a second emulator replays the episode from its seed
and actions, and reaches the same states, bit for bit.
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
    """Memory addresses of the room, and of the player's column and height in it."""

    room: int
    x: int
    y: int


PLACE_BYTES = {"montezuma_revenge": PlaceBytes(room=3, x=42, y=43)}  # by game


class MemoryReader:
    """Replays recorded episodes of one game, and reads the console's memory."""

    def __init__(self, config: EnvConfig) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._config = config
        rom = roms.get_rom_path(config.name)
        assert rom is not None, f"ale-py holds no ROM of {config.name}"
        self._rom = rom
        self._env = AtariEnv(config.name, 1, config)  # tells the number of no-ops of a seed

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
    """Return room, x and y at the start and after each action; None for games not in PLACE_BYTES.

    The list holds an array [T + 1, 3] per episode.
    """
    if config.name not in PLACE_BYTES:
        return None
    place = PLACE_BYTES[config.name]
    reader = MemoryReader(config)
    try:
        return [reader.bytes_of(record, place.room, place.x, place.y) for record in records]
    finally:
        reader.close()


def rooms_visited(records: list[EpisodeRecord], config: EnvConfig) -> list[set[int]] | None:
    """Return the rooms that each episode visited; None for games that are not in PLACE_BYTES."""
    places = places_visited(records, config)
    if places is None:
        return None
    return [{int(room) for room in np.unique(visited[:, 0])} for visited in places]
