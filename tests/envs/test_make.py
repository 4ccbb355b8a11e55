import numpy as np
import pytest

from agent57.config import ConfigError, EnvConfig
from agent57.envs.atari import AtariEnv
from agent57.envs.gymnasium import GymnasiumEnv
from agent57.envs.make import check_env, check_options, make_env
from agent57.envs.rules import RulesEnv
from tests.envs.playing import begin, play


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pong", AtariEnv),
        ("random_coin", RulesEnv),
        ("toy/cue", RulesEnv),
        ("CartPole-v1", GymnasiumEnv),
        ("agent57/RandomCoin-v0", GymnasiumEnv),
    ],
)
def test_a_name_leads_to_its_lanes(name, kind):
    env = make_env(EnvConfig(name=name), 2)
    assert isinstance(env, kind)
    assert env.spec.name == name
    assert env.num_lanes == 2
    assert check_env(EnvConfig(name=name)) == env.spec
    begin(env)
    play(env, 3)
    env.close()


@pytest.mark.parametrize(
    ("name", "near"),
    [("pnog", "pong"), ("Montezumas_Revenge", "montezuma_revenge"), ("randomcoin", "random_coin"),
     ("toy/que", "toy/cue"), ("CartPole-v7", "CartPole-v1"), ("ALE/Pnog-v5", "ALE/Pong-v5")],
)  # fmt: skip
def test_a_name_that_is_not_known_is_refused_with_the_nearest(name, near):
    with pytest.raises(ConfigError, match=f"^env.name '{name}' is not a known.*did you mean") as e:
        check_env(EnvConfig(name=name))
    assert near in str(e.value)


def test_the_random_coin_heeds_a_shorter_cap():
    env = make_env(EnvConfig(name="random_coin", max_episode_frames=1), 50)
    begin(env)
    step = env.step(np.zeros(50, np.int64))
    assert (step.terminated | step.truncated).all()


def test_lanes_in_processes_are_checked_without_any():
    assert check_env(EnvConfig(name="CartPole-v1", parallel="async")).kind == "vector"


PREPROCESSING = {
    "frame_skip": 2,
    "frame_size": 48,
    "noop_max": 0,
    "sticky_actions": 0.25,
    "actions": "minimal",
}


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("pong", {*PREPROCESSING, "max_episode_frames"}),
        ("random_coin", {"max_episode_frames"}),
        ("toy/cue", set()),
        ("CartPole-v1", {"max_episode_frames", "parallel"}),
    ],
)
def test_settings_a_task_has_no_use_for_are_refused(name, used):
    check_options(EnvConfig(name=name))
    for field, value in {**PREPROCESSING, "max_episode_frames": 9, "parallel": "async"}.items():
        config = EnvConfig(name=name, **{field: value})
        if field in used:
            check_options(config)
            continue
        with pytest.raises(ConfigError, match=f"^env.{field} has no effect on {name}: .*{value}$"):
            check_options(config)
