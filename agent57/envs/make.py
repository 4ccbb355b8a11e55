"""From the name of a task to its lanes."""

import dataclasses

import numpy as np

from agent57.config import EnvConfig, require
from agent57.envs.atari import ATARI_GAMES, AtariEnv
from agent57.envs.gymnasium import GymnasiumEnv, is_registered, unknown_name
from agent57.envs.random_coin import MAX_STEPS, RandomCoinRules
from agent57.envs.rules import RulesEnv
from agent57.envs.spec import VectorEnv
from agent57.envs.toy import TOYS
from agent57.types import EnvSpec

# Outside Atari an action is one step of the task, seen as the task shows it.
PREPROCESSING = ("frame_skip", "frame_size", "noop_max", "sticky_actions", "actions")


def check_options(config: EnvConfig) -> None:
    """Refuse a setting that is not the default and that the task has no use for."""
    unused: tuple[str, ...] = (*PREPROCESSING, "parallel")
    if config.name in ATARI_GAMES:
        unused = ("parallel",)
    elif config.name in TOYS:
        unused = (*PREPROCESSING, "parallel", "max_episode_frames")
    elif config.name != "random_coin":
        unused = PREPROCESSING
    if config.parallel == "sync":
        unused = (*unused, "step_seconds")
    default = EnvConfig()
    for name in unused:
        value = getattr(config, name)
        require(
            value == getattr(default, name),
            f"env.{name} has no effect on {config.name}: leave it at {getattr(default, name)}, "
            f"got {value}",
        )


def make_env(config: EnvConfig, num_lanes: int) -> VectorEnv:
    """Lanes of a paper game, the random coin, a toy, or a Gymnasium id with discrete actions."""
    if config.name in ATARI_GAMES:
        return AtariEnv(config.name, num_lanes, config)
    if config.name == "random_coin":
        return RulesEnv(RandomCoinRules(min(MAX_STEPS, config.max_episode_frames)), num_lanes)
    if config.name in TOYS:
        return RulesEnv(TOYS[config.name](), num_lanes)
    if not is_registered(config.name):
        raise unknown_name(config.name, (*ATARI_GAMES, "random_coin", *TOYS))
    return GymnasiumEnv(config, num_lanes)


def check_env(config: EnvConfig) -> EnvSpec:
    """What a player must know of the task, after one lane of it could be made and reset.

    A name or setting that cannot work raises `ConfigError`; nothing is left behind.
    """
    env = make_env(dataclasses.replace(config, parallel="sync"), 1)
    try:
        env.reset(np.ones(1, bool), np.zeros(1, np.int64))
        return env.spec
    finally:
        env.close()
