"""Costs of the agent's work on one machine, saved in a file by `agent57 bench`.

Costs are seconds of one core with one thread, because core time is the same on a busy and on an
idle machine. Without a saved file, the costs of the machine in `REFERENCE` are used.
"""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agent57.config import ConfigError, require
from agent57.storage.files import write_atomic
from agent57.types import EnvSpec

FORMAT_VERSION = 3
OTHER_GAMES = "other games"  # key of the mean over the games whose frames were compressed
BLOCK_OBJECT_BYTES = 700  # bytes of a block besides frames, steps and state
ATARI_FRAME_BYTES = 84 * 84
STEP_BYTES = 13  # bytes of a step in a block: two rewards, a probability, an action


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of one core for each kind of work, and bytes of memory."""

    processor: str
    cores: int
    measured: str  # date of the measurement, or another origin of the costs

    flop: float  # per operation of a large matrix product, the best that the machine can do
    act_call: float  # of a step of an actor with any number of lanes
    act_weight_byte: float  # of a step, for each byte of weights that it reads
    act_lane: float  # of a step, for each lane, without its emulator
    act_flop: float  # of a step, for each floating-point operation
    emulator: float  # of one agent step of one lane of Pong
    update_call: float  # of an update of any batch size
    update_weight_byte: float  # of an update, for each byte of trained weights
    update_byte: float  # of an update, for each byte of activations that it keeps
    update_flop: float  # of an update, for each floating-point operation
    insert: float  # of inserting one transition into the replay
    sample: float  # of sampling one step from the replay into a batch
    act_parallel: float  # share of acting that more threads make faster
    update_parallel: float  # share of an update that more threads make faster
    message: float  # of the driver of a cluster for each call, when calls come without a pause
    answer: float  # of all processes for each call, beyond `message`, when calls are rare
    ray_cores: float  # cores that Ray's own processes on a machine take when idle
    process_cores: float  # cores that each process of a cluster takes when idle
    process_bytes: float  # resident memory of a process with torch and this package
    lane_bytes: float  # memory of one lane of an emulator
    frames: dict[str, tuple[float, float]]  # by game: compressed bytes of a block's first frame
    # and of each further frame

    def frame_bytes(self, spec: EnvSpec, num_steps: int) -> float:
        """Return the bytes of a block's frames. Observations other than pixels are uncompressed."""
        if spec.kind != "pixels":
            return float((num_steps + 1) * spec.observation_bytes)
        first, further = self.frames.get(spec.name, self.frames[OTHER_GAMES])
        return (first + num_steps * further) * spec.observation_bytes / ATARI_FRAME_BYTES

    def block_bytes(self, spec: EnvSpec, num_steps: int, state_bytes: int) -> float:
        """Return the memory of one block of the replay."""
        others = BLOCK_OBJECT_BYTES + num_steps * STEP_BYTES + state_bytes
        return self.frame_bytes(spec, num_steps) + others

    def write(self, path: Path) -> None:
        """Save the costs as JSON."""
        values = {"version": FORMAT_VERSION, **dataclasses.asdict(self)}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, (json.dumps(values, indent=2) + "\n").encode())
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` saved."""
        try:
            values = json.loads(path.read_text())
            require(
                values.pop("version", None) == FORMAT_VERSION,
                f"{path} is of another version: run `agent57 bench` again",
            )
            frames = {game: tuple(sizes) for game, sizes in values.pop("frames").items()}
            return cls(frames=frames, **values)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise
            text = f"{path} holds no costs ({error}): run `agent57 bench` again"
            raise ConfigError(text) from None


def costs_file() -> Path:
    """Return the file of this machine's costs, in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "agent57" / "costs.json"


def machine_costs() -> Costs:
    """Return the costs that were measured on this machine, or else those of `REFERENCE`."""
    file = costs_file()
    return Costs.read(file) if file.is_file() else REFERENCE


# One core of an AMD EPYC (Zen 4) with torch 2.13, as `agent57 bench` measured it.
REFERENCE = Costs(
    processor="AMD EPYC (Zen 4, the reference machine)", cores=2, measured="2026-11-18",
    flop=1.13e-11, emulator=3.4e-4, insert=3.6e-7, sample=2.0e-6,
    act_call=2.2e-3, act_weight_byte=1.6e-10, act_lane=1.5e-4, act_flop=8.9e-12, act_parallel=0.5,
    update_call=7.0e-3, update_weight_byte=1.4e-9, update_byte=1.0e-9, update_flop=1.23e-11,
    update_parallel=0.7,
    message=4.5e-4, answer=3.7e-3, ray_cores=0.022, process_cores=0.0046,
    process_bytes=5.2e8, lane_bytes=1.7e6,
    frames={
        "pong": (182, 43), "breakout": (339, 31), "montezuma_revenge": (790, 71),
        "private_eye": (1067, 136), "beam_rider": (1219, 172), "skiing": (1190, 100),
        "enduro": (1392, 244), "battle_zone": (1808, 115), OTHER_GAMES: (998, 114),
    },
)  # fmt: skip
