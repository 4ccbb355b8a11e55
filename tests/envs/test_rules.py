import numpy as np
import pytest

from agent57.envs.random_coin import RandomCoinRules
from agent57.envs.rules import RulesEnv, random_words
from agent57.envs.toy import TOYS
from tests.envs.playing import (
    assert_resumes_exactly,
    assert_same,
    begin,
    play,
)

TASKS = {"random_coin": RandomCoinRules, **TOYS}


@pytest.mark.parametrize("name", TASKS)
def test_lanes_do_not_know_of_each_other(name):
    env = RulesEnv(TASKS[name](), 5)
    observation = begin(env)
    for lane in range(5):
        alone = RulesEnv(TASKS[name](), 1)
        assert np.array_equal(begin(alone, first_seed=lane)[0], observation[lane])
    rng = np.random.default_rng(0)
    alone = RulesEnv(TASKS[name](), 1)
    begin(alone, first_seed=3)
    for _ in range(30):
        action = rng.integers(env.spec.num_actions, size=5)
        step, single = env.step(action), alone.step(action[3:4])
        assert np.array_equal(step.observation[3], single.observation[0])
        assert (step.reward[3], step.terminated[3], step.truncated[3]) == (
            single.reward[0], single.terminated[0], single.truncated[0],
        )  # fmt: skip
        ended = step.terminated | step.truncated
        seeds = rng.integers(1000, size=5)
        env.reset(ended, seeds)
        alone.reset(ended[3:4], seeds[3:4])


@pytest.mark.parametrize("name", TASKS)
def test_running_episodes_resume_exactly(name):
    assert_resumes_exactly(RulesEnv(TASKS[name](), 3), RulesEnv(TASKS[name](), 3))


@pytest.mark.parametrize("name", TASKS)
def test_a_seed_and_actions_decide_an_episode(name):
    env = RulesEnv(TASKS[name](), 3)
    begin(env)
    first = play(env, 20)
    begin(env)
    assert_same(first, play(env, 20))


@pytest.mark.parametrize("name", TASKS)
def test_pictures_differ_as_what_the_lanes_see_differs(name):
    env, rng = RulesEnv(TASKS[name](), 4), np.random.default_rng(0)
    observation, seen = begin(env), set()
    for _ in range(50):
        for lane in range(4):
            picture = env.render(lane)
            assert (picture.dtype, picture.ndim, picture.shape[2]) == (np.uint8, 3, 3)
            seen.add((observation[lane].tobytes(), picture.tobytes()))
        step = env.step(rng.integers(env.spec.num_actions, size=4))
        observation = env.reset(step.terminated | step.truncated, rng.integers(1000, size=4))
    observations, pictures = zip(*seen, strict=True)
    assert len(set(observations)) == len(set(pictures)) == len(seen) > 1


def test_steps_do_not_change_what_was_seen_before():
    env = RulesEnv(RandomCoinRules(), 2)
    first = begin(env)
    kept = first.copy()
    play(env, 10)
    assert np.array_equal(first, kept)


def test_the_state_of_another_task_is_refused():
    env = RulesEnv(TOYS["toy/cue"](), 2)
    begin(env)
    with pytest.raises(ValueError, match="2 of toy/cue, not 2 of toy/chain"):
        RulesEnv(TOYS["toy/chain"](), 2).load_state_dict(env.state_dict())


def test_random_words_are_even_and_do_not_depend_on_their_company():
    words = random_words(np.arange(4000), 3)
    assert np.array_equal(words[7:8], random_words(np.array([7]), 3))
    assert len(np.unique(words)) == words.size
    ones = np.unpackbits(words.view(np.uint8).reshape(4000, -1), axis=1).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 0.05
