"""Reads a console's memory along a recorded episode, for statistics. No agent sees any of it.

The vector emulator does not show its memory. An episode is its seed and its actions, so a second
emulator plays it again and comes to the same states, bit for bit.
"""

from collections.abc import Iterator

import numpy as np
from ale_py import ALEInterface, LoggerMode, roms

from agent57.config import EnvConfig
from agent57.envs.atari import AtariEnv
from agent57.envs.spec import EpisodeRecord

ROOM_BYTES = {"montezuma_revenge": 3}  # the byte that holds the room, by game


class MemoryReader:
    """Plays recorded episodes of one game again, and reads their memory."""

    def __init__(self, config: EnvConfig) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._config = config
        rom = roms.get_rom_path(config.name)
        assert rom is not None, f"ale-py holds no ROM of {config.name}"
        self._rom = rom
        self._env = AtariEnv(config.name, 1, config)  # tells how many no-ops a seed begins with

    def bytes_of(self, record: EpisodeRecord, index: int) -> np.ndarray:
        """Return one byte of memory at the start of an episode and after each action."""
        return np.array([memory[index] for memory in self._replay(record)], np.uint8)

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


def rooms_visited(records: list[EpisodeRecord], config: EnvConfig) -> list[set[int]] | None:
    """Return the rooms that each episode saw; None where a game's rooms are not known."""
    if config.name not in ROOM_BYTES:
        return None
    reader = MemoryReader(config)
    try:
        seen = [reader.bytes_of(record, ROOM_BYTES[config.name]) for record in records]
    finally:
        reader.close()
    return [{int(room) for room in np.unique(rooms)} for rooms in seen]
