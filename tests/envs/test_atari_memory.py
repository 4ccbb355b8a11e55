"""Memory during recorded episodes: the second emulator must reach the same states."""

import numpy as np

from agent57.config import EnvConfig
from agent57.envs.atari import AtariEnv
from agent57.envs.atari_memory import MemoryReader, places_visited, rooms_visited
from agent57.envs.spec import EpisodeRecord

# In Breakout, byte 57 of the memory counts the lives that are left.
LIVES = 57


def played(game: str, seed: int, num_steps: int) -> tuple[EpisodeRecord, np.ndarray, float]:
    """Play at random; return the record, the last screen and the return."""
    env = AtariEnv(game, 1, EnvConfig(name=game))
    rng = np.random.default_rng(seed)
    env.reset(np.ones(1, bool), np.array([seed]))
    total = 0.0
    for _ in range(num_steps):
        total += float(env.step(rng.integers(18, size=1)).reward[0])
    record = env.running_episode(0)
    screen = env.render(0)
    env.close()
    return record, screen, total


def test_the_byte_of_lives_follows_the_game() -> None:
    record, _, _ = played("breakout", seed=5, num_steps=120)
    reader = MemoryReader(EnvConfig(name="breakout"))
    lives = reader.bytes_of(record, LIVES)[:, 0]
    again = reader.bytes_of(record, 0, LIVES)[:, 1]
    reader.close()
    assert len(lives) == 121
    assert lives[0] == 5
    assert set(np.diff(lives.astype(int))) <= {0, -1}
    np.testing.assert_array_equal(lives, again)


def test_montezuma_begins_in_room_one() -> None:
    records = [played("montezuma_revenge", seed, 30)[0] for seed in (3, 4)]
    assert rooms_visited(records, EnvConfig(name="montezuma_revenge")) == [{1}, {1}]


def test_other_games_have_no_known_rooms() -> None:
    assert rooms_visited([], EnvConfig(name="pong")) is None


def test_the_player_walks_right_and_stands_still() -> None:
    config, right, noop = EnvConfig(name="montezuma_revenge"), 3, 0
    record = EpisodeRecord(seed=1, actions=np.array([noop] * 12 + [right] * 3 + [noop] * 5))
    (places,) = places_visited([record], config)
    assert places.shape == (21, 3)
    columns = places[:, 1].astype(int)
    assert columns[15] > columns[12]
    assert len(set(columns[:13])) == 1
    assert len(set(places[:15, 2])) == 1  # on the platform
