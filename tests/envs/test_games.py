"""The different names of a game."""

import gymnasium
import pytest

from agent57.config import EnvConfig
from agent57.defaults import default_config
from agent57.envs.games import ATARI_GAMES, game_named, renaming, with_paper_name
from agent57.envs.make import make_env


@pytest.mark.parametrize(
    ("name", "game"),
    [
        ("pong", "pong"),
        ("Pong", "pong"),
        ("ALE/Pong-v5", "pong"),
        ("PongNoFrameskip-v4", "pong"),
        ("PongDeterministic-v0", "pong"),
        ("MontezumaRevenge", "montezuma_revenge"),
        ("Montezuma_Revenge", "montezuma_revenge"),
        ("ALE/UpNDown-v5", "up_n_down"),
        ("Pong-ram-v4", None),
        ("ALE/Pong-ram-v5", None),
        ("CartPole-v1", None),
        ("minatar:MinAtar/Breakout-v1", None),
        ("MiniGrid-Empty-5x5-v0", None),
    ],
)
def test_names_mean_games(name: str, game: str | None) -> None:
    assert game_named(name) == game


def test_every_id_of_the_emulator_that_names_a_game_is_known() -> None:
    pytest.importorskip("ale_py")
    ids = [name for name in gymnasium.registry if name.startswith("ALE/") and "-ram" not in name]
    assert len({game_named(name) for name in ids} - {None}) == len(ATARI_GAMES)


def test_an_id_is_played_as_the_paper_plays_it_unless_it_shall_be_raw() -> None:
    config = default_config("ALE/Pong-v5", "agent57", "tiny")
    assert config.env == EnvConfig(name="pong")
    assert "pong: 84 x 84" in renaming("ALE/Pong-v5", config.env)
    assert renaming("pong", config.env) == ""
    env = make_env(EnvConfig(name="ALE/Pong-v5"), 1)
    assert (env.spec.name, env.spec.observation_shape) == ("pong", (1, 84, 84))
    env.close()
    raw = EnvConfig(name="ALE/Pong-v5", raw=True)
    assert with_paper_name(raw) == raw
    env = make_env(raw, 1)
    assert env.spec.observation_shape == (3, 210, 160)
    env.close()
