from dataclasses import replace

import numpy as np
import pytest
import torch

from agent57.envs.lanes import EpisodeLog, Lanes
from agent57.envs.rebuild import check_same_task, rebuild
from agent57.envs.spec import Step
from tests.small import SPEC


class Tally:
    """Observes (seed, sum of actions so far); an episode ends at the action 9."""

    def __init__(self, num_lanes: int, drift: float = 0.0) -> None:
        self.spec = replace(SPEC, name="tally", observation_shape=(2,), num_actions=10)
        self.num_lanes = num_lanes
        self.log = EpisodeLog(num_lanes, 10)
        self.lanes = Lanes("tally", num_lanes, 10)
        self.drift = drift  # added to lane 0, which then cannot be rebuilt
        self.num_steps_played = 0
        self.observation = np.zeros((num_lanes, 2), np.float32)

    def reset(self, lanes, seeds):
        self.lanes.check_reset(lanes, seeds)
        self.lanes.begin(lanes)
        self.log.begin(lanes, seeds)
        self.observation[lanes, 0] = seeds[lanes]
        self.observation[lanes, 1] = 0
        return self.observation.copy()

    def step(self, action):
        action = self.lanes.check_action(action)
        self.num_steps_played += 1
        self.observation[:, 1] += action
        self.observation[0, 1] += self.drift
        reward = action.astype(np.float32)
        self.log.record(action, reward)
        ended = action == 9
        self.lanes.end(ended)
        return Step(
            observation=self.observation.copy(),
            reward=reward,
            terminated=ended,
            truncated=np.zeros_like(ended),
        )

    def state_dict(self):
        return self.log.state_dict(self.lanes, self.observation)


def lanes_of_different_ages() -> Tally:
    """Lane 0 has played 5 actions, lane 1 has 2, lane 2 none; lane 3 ended with its fifth."""
    env = Tally(4)
    env.reset(np.ones(4, bool), np.array([10, 11, 12, 13]))
    for row in ([1, 2, 3, 4], [5, 6, 7, 8], [1, 1, 1, 1]):
        env.step(np.array(row))
    env.reset(np.array([False, True, False, False]), np.full(4, 21))
    for row in ([2, 3, 4, 5], [6, 7, 8, 9]):
        env.step(np.array(row))
    env.reset(np.array([False, False, True, False]), np.full(4, 32))
    return env


def test_the_log_holds_seed_and_actions_of_the_running_episode_only():
    log = lanes_of_different_ages().log
    assert log.seed.tolist() == [10, 21, 32, 13]
    assert [log.actions(lane).tolist() for lane in range(4)] == [
        [1, 5, 1, 2, 6], [3, 7], [], [4, 8, 1, 5, 9],
    ]  # fmt: skip
    assert log.actions(0, start=3).tolist() == [2, 6]
    assert log.returns.tolist() == [15, 10, 0, 27]
    assert log.num_episodes.tolist() == [1, 2, 2, 1]


def test_the_saved_log_is_one_byte_an_action():
    state = lanes_of_different_ages().state_dict()
    assert state["actions"].dtype == torch.uint8
    assert state["actions"].tolist() == [1, 5, 1, 2, 6, 3, 7, 4, 8, 1, 5, 9]


def test_many_actions_need_more_than_a_byte():
    log = EpisodeLog(1, 1000)
    log.begin(np.ones(1, bool), np.zeros(1, np.int64))
    log.record(np.array([999]), np.zeros(1, np.float32))
    assert log.actions(0).tolist() == [999]


def test_the_log_grows_without_losing_anything():
    log = EpisodeLog(2, 10)
    log.begin(np.ones(2, bool), np.zeros(2, np.int64))
    actions = np.random.default_rng(0).integers(10, size=(5000, 2))
    for action in actions:
        log.record(action, np.zeros(2, np.float32))
    assert np.array_equal(log.actions(0), actions[:, 0])
    assert np.array_equal(log.actions(1), actions[:, 1])


def test_lanes_are_rebuilt_in_one_pass_as_long_as_the_longest():
    env, other = lanes_of_different_ages(), Tally(4)
    assert rebuild(other, env.state_dict()).all()
    assert other.num_steps_played == 5
    assert np.array_equal(other.observation, env.observation)
    assert np.array_equal(other.lanes.is_playing, [True, True, True, False])
    assert [other.log.actions(lane).tolist() for lane in range(4)] == [
        env.log.actions(lane).tolist() for lane in range(4)
    ]


def test_lanes_are_rebuilt_where_others_have_played_before():
    env, other = lanes_of_different_ages(), lanes_of_different_ages()
    other.reset(np.ones(4, bool), np.array([5, 6, 7, 8]))
    other.step(np.array([3, 9, 3, 9]))
    other.reset(np.array([False, True, False, True]), np.zeros(4, np.int64))
    assert rebuild(other, env.state_dict()).all()
    assert np.array_equal(other.observation, env.observation)


def test_a_lane_that_departs_is_reported_and_the_others_are_not():
    assert rebuild(Tally(4, drift=1.0), lanes_of_different_ages().state_dict()).tolist() == [
        False, True, True, True,
    ]  # fmt: skip


def test_a_lane_that_earned_something_else_is_reported():
    state = lanes_of_different_ages().state_dict()
    state["returns"][1] += 1
    assert rebuild(Tally(4), state).tolist() == [True, False, True, True]


def test_a_lane_that_ends_too_early_is_reported():
    env = lanes_of_different_ages()
    state = env.state_dict()
    state["actions"][1] = 9  # lane 0 now ends at its second action
    is_rebuilt = rebuild(Tally(4), state)
    assert is_rebuilt.tolist() == [False, True, True, True]


def test_lanes_at_the_start_of_their_episodes_are_rebuilt():
    env = Tally(2)
    env.reset(np.ones(2, bool), np.array([3, 4]))
    other = Tally(2)
    assert rebuild(other, env.state_dict()).all()
    assert np.array_equal(other.observation, env.observation)


def test_the_state_of_other_lanes_is_refused():
    env = lanes_of_different_ages()
    with pytest.raises(ValueError, match="4 of tally, not 2 of tally"):
        check_same_task(Tally(2), env.state_dict())
    with pytest.raises(ValueError, match="4 of other, not 4 of tally"):
        check_same_task(env, {**env.state_dict(), "name": "other"})
