"""One lane as a Gymnasium environment."""

import numpy as np
from gymnasium.utils.env_checker import check_env

from agent57.config import EnvConfig
from agent57.envs.make import make_env
from agent57.envs.one_lane import OneLane


def test_one_lane_passes_gymnasiums_own_checks() -> None:
    for name in ("toy/chain", "CartPole-v1"):
        env = OneLane(EnvConfig(name=name))
        check_env(env, skip_render_check=True)
        env.close()


def test_one_lane_plays_like_lanes() -> None:
    one, lanes = OneLane(EnvConfig(name="pong")), make_env(EnvConfig(name="pong"), 1)
    observation, _ = one.reset(seed=11)
    wanted = lanes.reset(np.ones(1, bool), np.array([11]))
    assert (observation == wanted[0]).all()
    for action in (2, 3, 0, 5):
        observation, reward, terminated, truncated, _ = one.step(action)
        step = lanes.step(np.array([action]))
        assert (observation == step.observation[0]).all()
        assert (reward, terminated) == (float(step.reward[0]), bool(step.terminated[0]))
        assert not truncated
    assert one.render().shape == (210, 160, 3)
    one.close()
    lanes.close()
