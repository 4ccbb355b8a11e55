"""Costs are saved and read, refused if damaged, and predict the memory of a replay block."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agent57.config import ConfigError
from agent57.envs.make import check_env
from agent57.planning.machine_costs import OTHER_GAMES, REFERENCE, Costs, costs_file, machine_costs
from agent57.presets import make_config
from agent57.replay.block import Encoder
from tests.replay.episodes import make_block


def test_costs_come_back_as_they_were_written(tmp_path: Path) -> None:
    costs = replace(REFERENCE, frames={OTHER_GAMES: (100.0, 5.0), "pong": (1.5, 2.5)})
    costs.write(tmp_path / "deep" / "costs.json")
    assert Costs.read(tmp_path / "deep" / "costs.json") == costs


def test_without_a_file_the_costs_are_those_of_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert machine_costs() is REFERENCE
    mine = replace(REFERENCE, processor="mine")
    mine.write(costs_file())
    assert costs_file().is_relative_to(tmp_path)
    assert machine_costs() == mine


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 0}', '{"version": 2, "frames": {}}', "\x00"]
)
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "costs.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match="agent57 bench") as error:
        Costs.read(file)
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        Costs.read(tmp_path / "none.json")


def test_a_block_takes_what_the_replay_counts() -> None:
    spec = check_env(make_config("agent57", "tiny").env)
    num_steps, frames = 10, np.zeros((11, 1, 84, 84), np.uint8)
    frames[:, 0, 40:44, 40:44] = np.arange(11)[:, None, None]
    encoded, is_compressed = Encoder(1).encode(frames)
    state = np.zeros((2, 2, 64), np.float32)
    block = make_block(num_steps, observations=encoded, is_compressed=is_compressed, state=state)
    costs = replace(REFERENCE, frames={OTHER_GAMES: (len(encoded) - 10.0, 1.0)})
    predicted = costs.block_bytes(spec, num_steps, state.nbytes)
    assert predicted == pytest.approx(block.num_bytes, abs=400)  # slots and tree come on top
