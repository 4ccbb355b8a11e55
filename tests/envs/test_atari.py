from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from agent57.config import ConfigError, EnvConfig
from agent57.envs.atari import ATARI_GAMES, CHALLENGING_GAMES, SCREEN, AtariEnv
from tests.envs.playing import assert_resumes_exactly, assert_same, begin, everyone, play


def atari(game: str, num_lanes: int = 1, **settings) -> AtariEnv:
    return AtariEnv(game, num_lanes, EnvConfig(name=game, **settings))


def test_the_paper_has_57_games_and_ten_of_them_are_challenging():
    assert len(set(ATARI_GAMES)) == 57
    assert len(set(CHALLENGING_GAMES)) == 10
    assert set(CHALLENGING_GAMES) < set(ATARI_GAMES)


def starts_and_plays(game: str) -> bool:
    env = atari(game)
    spec = env.spec
    first = begin(env)
    steps = [env.step(np.array([action])) for action in (0, spec.num_actions - 1)]
    env.close()
    return (
        (spec.name, spec.kind, spec.observation_shape) == (game, "pixels", (1, 84, 84))
        and spec.frames_per_step == 4
        and spec.num_actions == (9 if game == "skiing" else 18)
        and first.shape == (1, 1, 84, 84)
        and all(not (step.terminated | step.truncated).any() for step in steps)
        and steps[-1].observation.max() > 0
    )


def test_every_game_starts_and_plays():
    with ThreadPoolExecutor() as pool:
        succeeds = dict(zip(ATARI_GAMES, pool.map(starts_and_plays, ATARI_GAMES), strict=True))
    assert [game for game in ATARI_GAMES if not succeeds[game]] == []


@pytest.mark.parametrize(("game", "action"), [("pong", 18), ("skiing", 9)])
def test_an_action_outside_the_space_raises_instead_of_hanging(game, action):
    env = atari(game, 2)
    begin(env)
    with pytest.raises(ValueError, match=f"{game}: action must lie in .*got {action} in lane 1"):
        env.step(np.array([0, action]))
    env.step(np.zeros(2, np.int64))
    env.close()


def test_a_seed_and_actions_decide_an_episode_whatever_was_played_before():
    env = atari("breakout", 2)
    begin(env)
    fresh = play(env, 20)
    begin(env, first_seed=50)
    play(env, 10, seed=3)
    begin(env)
    assert_same(fresh, play(env, 20))
    env.close()


def test_seeds_differ_in_their_no_ops():
    env = atari("freeway", 4)
    observation = begin(env)
    assert len({lane.tobytes() for lane in observation}) > 1
    env.close()


def test_without_no_ops_seeds_do_not_matter():
    env = atari("freeway", 2, noop_max=0)
    first, second = begin(env)
    assert np.array_equal(first, second)
    env.close()


def test_a_masked_reset_leaves_other_lanes_alone():
    env, alone = atari("breakout", 2), atari("breakout", 1)
    begin(env)
    begin(alone)
    for t in range(12):
        step = env.step(np.array([t % 18, 1]))
        single = alone.step(np.array([t % 18]))
        assert np.array_equal(step.observation[0], single.observation[0])
        if t % 6 == 0:
            observation = env.reset(np.array([False, True]), np.array([0, t]))
            assert np.array_equal(observation[0], single.observation[0])
    env.close()
    alone.close()


def test_the_cap_truncates_with_the_true_last_observation():
    capped, free = atari("pong", max_episode_frames=40), atari("pong")
    begin(capped)
    begin(free)
    for t in range(10):
        action = np.array([t % 18])
        step, expected = capped.step(action), free.step(action)
        assert np.array_equal(step.observation, expected.observation)
        assert step.truncated.tolist() == [t == 9]
        assert not step.terminated.any()
    with pytest.raises(ValueError, match="lane 0 has no running episode"):
        capped.step(np.zeros(1, np.int64))
    capped.reset(everyone(capped), np.zeros(1, np.int64))
    assert not capped.step(np.zeros(1, np.int64)).truncated.any()
    capped.close()
    free.close()


def test_a_game_over_terminates_and_the_next_episode_takes_its_first_action():
    env, fresh = atari("breakout", 1), atari("breakout", 1)
    begin(env)
    while not (step := env.step(np.array([1]))).terminated[0]:
        assert not step.truncated.any()
    begin(env, first_seed=7)
    begin(fresh, first_seed=7)
    assert_same(play(env, 10), play(fresh, 10))
    env.close()
    fresh.close()


def test_rewards_are_not_clipped():
    env = atari("space_invaders", 2)
    begin(env)
    rewards = np.concatenate([seen for seen in play(env, 120) if seen.dtype == np.float32])
    assert rewards.max() > 1
    env.close()


@pytest.mark.parametrize(
    ("game", "settings"), [("pong", {}), ("breakout", {}), ("qbert", {"sticky_actions": 0.25})]
)
def test_running_episodes_resume_exactly(game, settings):
    env, other = atari(game, 2, **settings), atari(game, 2, **settings)
    assert_resumes_exactly(env, other, num_steps=30)
    env.close()
    other.close()


def test_a_lane_that_ended_is_still_ended_after_loading():
    env, other = atari("pong", 2, max_episode_frames=8), atari("pong", 2, max_episode_frames=8)
    begin(env)
    env.step(np.zeros(2, np.int64))
    env.reset(np.array([True, False]), np.array([5, 0]))
    assert env.step(np.zeros(2, np.int64)).truncated.tolist() == [False, True]
    assert other.load_state_dict(env.state_dict()).all()
    with pytest.raises(ValueError, match="lane 1 has no running episode"):
        other.step(np.zeros(2, np.int64))
    env.close()
    other.close()


def test_a_lane_whose_observation_differs_is_not_rebuilt():
    env = atari("pong", 2)
    begin(env)
    env.step(np.array([1, 2]))
    state = env.state_dict()
    state["observation"][1, 0, 40, 40] += 1
    assert env.load_state_dict(state).tolist() == [True, False]
    env.close()


def test_pictures_show_the_lane_in_colour_as_it_plays():
    env = atari("ms_pacman", 2)
    begin(env)
    for num_steps in (0, 1, 5):
        for t in range(num_steps):
            step = env.step(np.array([t, 17 - t]))
        picture = env.render(1)
        assert picture.shape == (*SCREEN, 3)
        assert picture.dtype == np.uint8
        assert (picture[..., 0] != picture[..., 2]).any()
    # Luma of the picture at the size of the observation: only rounding and palette may differ.
    luma = picture @ np.array([0.299, 0.587, 0.114])
    rows, columns = (np.arange(84) + 0.5) * 210 / 84, (np.arange(84) + 0.5) * 160 / 84
    small = luma[rows.astype(int)][:, columns.astype(int)]
    assert np.corrcoef(small.ravel(), step.observation[1, 0].ravel())[0, 1] > 0.9
    env.close()


def test_pictures_follow_resets_and_loads():
    env, other = atari("breakout"), atari("breakout")
    begin(env)
    play(env, 5)
    env.render(0)
    begin(env, first_seed=3)
    play(env, 8)
    other.load_state_dict(env.state_dict())
    assert np.array_equal(env.render(0), other.render(0))
    env.close()
    other.close()


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(ConfigError, match="env.name 'pnog'"):
        AtariEnv("pnog", 1, EnvConfig())
    with pytest.raises(ConfigError, match="env.frame_size must be at least 36"):
        atari("pong", frame_size=20)


def test_the_frame_size_can_be_chosen_and_an_empty_reset_changes_nothing():
    env = atari("pong", frame_size=48)
    first = begin(env)
    assert first.shape == (1, 1, 48, 48)
    assert np.array_equal(env.reset(np.zeros(1, bool), np.zeros(1, np.int64)), first)
    env.close()
