from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from ale_py import ALEInterface, LoggerMode, roms

from agent57.config import ConfigError, EnvConfig
from agent57.envs.atari import AtariEnv
from agent57.envs.emulator import SCREEN
from agent57.envs.games import ATARI_GAMES
from agent57.scores.published import suite_games
from tests.envs.playing import (
    assert_masked_resets_leave_lane_0_alone,
    assert_resumes_exactly,
    assert_same,
    begin,
    everyone,
    play,
)


def atari(game: str, num_lanes: int = 1, **settings) -> AtariEnv:
    return AtariEnv(game, num_lanes, EnvConfig(name=game, **settings))


def test_the_paper_has_57_games_and_ten_of_them_are_challenging():
    assert len(set(ATARI_GAMES)) == 57
    assert set(suite_games("atari57")) == set(ATARI_GAMES)
    assert len(set(suite_games("challenging10"))) == 10
    assert set(suite_games("challenging10")) < set(ATARI_GAMES)


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


def test_the_minimal_actions_of_pong_are_six_of_the_eighteen():
    minimal, full = atari("pong", actions="minimal"), atari("pong")
    assert (minimal.spec.num_actions, full.spec.num_actions) == (6, 18)
    begin(minimal)
    begin(full)
    same = {0: 0, 1: 1, 2: 3, 3: 4, 4: 11, 5: 12}  # none, fire, right, left, both with fire
    for t in range(120):
        action = t // 4 % 6
        step = minimal.step(np.array([action]))
        expected = full.step(np.array([same[action]]))
        assert np.array_equal(step.observation, expected.observation)
    minimal.close()
    full.close()


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
    assert_masked_resets_leave_lane_0_alone(env, alone, 12, period=6)


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


class Console:
    """A game one raw frame at a time, with the first seed and no no-ops."""

    def __init__(self, game: str) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ALEInterface()
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.setInt("random_seed", 0)
        self._ale.loadROM(roms.get_rom_path(game))
        self._ale.reset_game()
        self.grey: list[np.ndarray] = []  # raw screens of the latest action
        self.colour: list[np.ndarray] = []

    def act(self, action: int) -> None:
        """Repeat an action for four frames, or until the game is over."""
        self.grey, self.colour = [], []
        while len(self.grey) < 4 and not self._ale.game_over():
            self._ale.act(self._ale.getLegalActionSet()[action])
            self.grey.append(self._ale.getScreenGrayscale().astype(float))
            self.colour.append(self._ale.getScreenRGB().astype(float))


def shrunk(screen: np.ndarray) -> np.ndarray:
    """Shrink a screen to 84 x 84 pixels, each the mean of the area that it covers."""
    for axis, size in enumerate(SCREEN):
        edges = np.arange(85) * size / 84
        pixel = np.arange(size)
        covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
        screen = np.moveaxis(np.tensordot(covered.clip(0) * 84 / size, screen, (1, axis)), 0, axis)
    return screen


def error(seen: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(seen - expected).max())


def test_pixels_are_grey_then_the_maximum_of_frames_3_and_4_then_shrunk_by_area():
    env, console = atari("seaquest", noop_max=0), Console("seaquest")
    begin(env)
    luma = np.array([0.299, 0.587, 0.114])
    others = {"maximum of colours": 0.0, "shrunk first": 0.0, "frames 2 and 3": 0.0, "frame 4": 0.0}
    for action in np.random.default_rng(0).integers(18, size=60):
        seen = env.step(np.array([action])).observation[0, 0]
        console.act(action)
        _, second, third, fourth = console.grey
        assert error(seen, shrunk(np.maximum(third, fourth))) < 1  # the difference is rounding
        found = {
            "maximum of colours": shrunk(np.maximum(*console.colour[2:]) @ luma),
            "shrunk first": np.maximum(shrunk(third), shrunk(fourth)),
            "frames 2 and 3": shrunk(np.maximum(second, third)),
            "frame 4": shrunk(fourth),
        }
        others = {name: max(others[name], error(seen, found[name])) for name in others}
    assert min(others.values()) > 4, others
    env.close()


@pytest.mark.parametrize(("policy", "last_frame"), [("fire", 1), ("random", 4)])
def test_the_observation_at_game_over_is_older_than_the_end(policy, last_frame):
    env, console, rng = atari("breakout", noop_max=0), Console("breakout"), np.random.default_rng(0)
    begin(env)
    before, step = [], None
    while step is None or not step.terminated[0]:
        action = 1 if policy == "fire" else rng.integers(18)
        before, previous = console.grey, step
        step = env.step(np.array([action]))
        console.act(action)
    assert len(console.grey) == last_frame
    kept = before[2:] + console.grey[:last_frame][2:3]  # frame 3, if the game lasted so long
    assert error(step.observation[0, 0], shrunk(np.maximum.reduce(kept))) < 1
    if last_frame == 1:
        assert np.array_equal(step.observation, previous.observation)
    else:
        assert error(step.observation[0, 0], shrunk(np.maximum(*console.grey[2:]))) > 4
    env.close()


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
    # The picture's luma, shrunk to the observation's size, differs only by rounding and palette.
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
