import re
import subprocess
import sys

import gymnasium
import numpy as np

from agent57.envs.random_coin import (
    AGENT_COLOUR,
    CELL,
    COIN_COLOUR,
    FLOOR_COLOUR,
    MAX_STEPS,
    SIZE,
    RandomCoin,
    RandomCoinRules,
)
from agent57.envs.rules import RulesEnv
from tests.envs.playing import begin
from tests.house.names import ROOT

UP, DOWN, LEFT, RIGHT = range(4)


def places(observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells (row, column) of agents and coins, [E, 2] each."""
    cells = observation.reshape(len(observation), 2, -1).argmax(axis=2)
    return (
        np.stack([cells[:, 0] // SIZE, cells[:, 0] % SIZE], axis=1),
        np.stack([cells[:, 1] // SIZE, cells[:, 1] % SIZE], axis=1),
    )


def towards_the_coin(observation: np.ndarray) -> np.ndarray:
    agent, coin = places(observation)
    row, column = (coin - agent).T
    return np.select([row < 0, row > 0, column < 0], [UP, DOWN, LEFT], RIGHT)


def test_agent_and_coin_are_anywhere_but_never_on_one_cell():
    env = RulesEnv(RandomCoinRules(), 20_000)
    observation = begin(env)
    assert (observation.sum(axis=(2, 3)) == 1).all()
    assert not (observation[:, 0] & observation[:, 1]).any()
    expected = 20_000 / SIZE**2
    counts = observation.sum(axis=0, dtype=np.int64)  # [2, Y, X]
    assert (np.abs(counts - expected) < 6 * expected**0.5).all()


def test_the_shortest_path_earns_one_and_terminates():
    env = RulesEnv(RandomCoinRules(), 200)
    observation = begin(env)
    agent, coin = places(observation)
    distance = np.abs(agent - coin).sum(axis=1)
    returns, length = np.zeros(200), np.zeros(200, np.int64)
    is_playing = np.ones(200, bool)
    while is_playing.any():
        step = env.step(towards_the_coin(observation))
        returns += step.reward * is_playing
        length += is_playing
        assert not step.truncated[is_playing].any()
        is_playing &= ~step.terminated
        # Lanes that have ended are reset and play on, and are not checked again.
        observation = env.reset(step.terminated | step.truncated, np.arange(200))
    assert (returns == env.optimal_return).all()
    assert np.array_equal(length, distance)


def test_the_last_observation_shows_the_agent_on_the_coin():
    env = RulesEnv(RandomCoinRules(), 1)
    observation = begin(env)
    while not (step := env.step(towards_the_coin(observation))).terminated[0]:
        observation = step.observation
    agent, coin = places(step.observation)
    assert np.array_equal(agent, coin)


def test_moves_by_hand():
    rules = RandomCoinRules()
    corner = np.array([[0, 0, 0, 2]] * 4)
    state, reward, terminated = rules.move(corner, np.array([UP, DOWN, LEFT, RIGHT]))
    assert state[:, :2].tolist() == [[0, 0], [1, 0], [0, 0], [0, 1]]  # walls stop a move
    assert not reward.any()
    assert not terminated.any()
    state, reward, terminated = rules.move(state, np.array([RIGHT, UP, DOWN, RIGHT]))
    assert state[:, :2].tolist() == [[0, 1], [0, 0], [1, 0], [0, 2]]
    assert reward.tolist() == [0, 0, 0, 1]
    assert terminated.tolist() == [False, False, False, True]


def test_an_episode_without_the_coin_is_truncated_after_200_steps():
    env = RulesEnv(RandomCoinRules(), 1)
    agent, coin = places(begin(env))
    away = UP if coin[0, 0] > agent[0, 0] else DOWN
    if coin[0, 0] == agent[0, 0]:
        away = LEFT if coin[0, 1] > agent[0, 1] else RIGHT
    for t in range(MAX_STEPS):
        step = env.step(np.array([away]))
        assert step.truncated.tolist() == [t == MAX_STEPS - 1]
        assert not step.terminated.any()
        assert step.reward.sum() == 0


def test_one_gymnasium_environment_plays_like_a_lane():
    single = gymnasium.make("agent57/RandomCoin-v0", render_mode="rgb_array")
    env = RulesEnv(RandomCoinRules(), 1)
    rng = np.random.default_rng(0)
    for seed in range(20):
        observation, _ = single.reset(seed=seed)
        assert np.array_equal(observation, begin(env, first_seed=seed)[0])
        ended = False
        while not ended:
            action = int(rng.integers(4))
            observation, reward, terminated, truncated, _ = single.step(action)
            step = env.step(np.array([action]))
            assert np.array_equal(observation, step.observation[0])
            assert (reward, terminated, truncated) == (
                step.reward[0], step.terminated[0], step.truncated[0],
            )  # fmt: skip
            ended = terminated or truncated
        assert np.array_equal(single.render(), env.render(0))


def test_gymnasium_accepts_the_environment():
    from gymnasium.utils.env_checker import check_env

    single = gymnasium.make("agent57/RandomCoin-v0", render_mode="rgb_array")
    check_env(single.unwrapped)  # rendering included, which needs the registered spec


def test_gymnasium_finds_it_by_the_name_in_the_docs():
    # In a new process, because this process has already imported the package.
    (name,) = re.findall(r'gymnasium.make\("(.*)"\)', (ROOT / "docs/ENVIRONMENTS.md").read_text())
    code = f"import gymnasium; print(gymnasium.make({name!r}).reset()[0].shape)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == f"(2, {SIZE}, {SIZE})"


def test_the_picture_by_hand():
    picture = RandomCoinRules().picture(np.array([0, 14, 3, 5]))  # agent, then coin
    assert picture.dtype == np.uint8
    assert picture.shape == (SIZE * CELL, SIZE * CELL, 3)
    cells = np.full((SIZE, SIZE, 3), FLOOR_COLOUR)
    cells[0, 14], cells[3, 5] = AGENT_COLOUR, COIN_COLOUR
    for row, column in np.ndindex(SIZE, SIZE):
        cell = picture[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL]
        assert (cell == cells[row, column]).all(), (row, column)
    assert len({FLOOR_COLOUR, AGENT_COLOUR, COIN_COLOUR}) == 3


def test_unseeded_episodes_differ():
    env = RandomCoin()
    env.reset(seed=0)
    assert len({env.reset()[0].tobytes() for _ in range(5)}) > 1
