"""Makes the lanes of a task from its name."""

import dataclasses

import numpy as np

from agent57.config import ConfigError, EnvConfig, require
from agent57.envs.games import ATARI_GAMES, renaming, with_paper_name
from agent57.envs.gymnasium import (
    GymnasiumEnv,
    is_registered,
    parts_seen,
    parts_unseen,
    unknown_name,
)
from agent57.envs.own import maker_of
from agent57.envs.random_coin import MAX_STEPS, RandomCoinRules
from agent57.envs.rules import RulesEnv
from agent57.envs.spec import EnvironmentFault, VectorEnv
from agent57.envs.toy import TOYS
from agent57.types import EnvSpec

# Settings that apply to Atari only: elsewhere an action is one step and nothing is preprocessed.
PREPROCESSING = ("frame_skip", "frame_size", "noop_max", "sticky_actions", "actions")
OF_GYMNASIUM = ("parallel", "kwargs", "wrapper")


def check_options(config: EnvConfig) -> None:
    """Refuse settings that have no effect on the task, unless they have their default."""
    unused: tuple[str, ...] = (*PREPROCESSING, *OF_GYMNASIUM)
    if config.name in ATARI_GAMES:
        unused = OF_GYMNASIUM
    elif config.name in TOYS:
        unused = (*PREPROCESSING, *OF_GYMNASIUM, "max_episode_frames")
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
    """Make lanes of a game, the random coin, a toy, or a Gymnasium id with discrete actions."""
    config = with_paper_name(config)
    if config.name in ATARI_GAMES:
        return make_game(config, num_lanes)
    if config.name == "random_coin":
        return RulesEnv(RandomCoinRules(min(MAX_STEPS, config.max_episode_frames)), num_lanes)
    if config.name in TOYS:
        return RulesEnv(TOYS[config.name](), num_lanes)
    is_own = maker_of(config.name) is not None or ":" in config.name
    if not is_own and not is_registered(config.name):
        raise unknown_name(config.name, (*ATARI_GAMES, "random_coin", *TOYS))
    return GymnasiumEnv(config, num_lanes)


def make_game(config: EnvConfig, num_lanes: int, *, in_colour: bool = False) -> VectorEnv:
    """Make lanes of an Atari game. The emulator is an extra, so it is imported only here."""
    try:
        from agent57.envs.atari import AtariEnv
    except ImportError as cause:
        raise ConfigError(
            f"{config.name} needs the Atari emulator: pip install 'agent57[atari]'"
        ) from cause
    return AtariEnv(config.name, num_lanes, config, in_colour=in_colour)


def announcements(given: str, config: EnvConfig) -> list[str]:
    """Return lines that a user should read before training: renamed games, unseen parts.

    given: the name as the user typed it
    """
    lines = [renaming(given, config)]
    is_gymnasium = config.name not in (*ATARI_GAMES, "random_coin", *TOYS)
    unseen = parts_unseen(config) if is_gymnasium else []
    if unseen:
        lines.append(
            f"{config.name}: the agent sees {', '.join(parts_seen(config))} and does not see "
            f"{', '.join(unseen)} (--env.observe NAME NAME changes that)"
        )
    return [line for line in lines if line]


def check_env(config: EnvConfig) -> EnvSpec:
    """Make and reset one lane of the task, and return the properties that a player needs.

    A wrong name or setting, or an environment that fails to begin, raises `ConfigError`. The lane
    is always closed again.
    """
    env = make_env(dataclasses.replace(config, parallel="sync"), 1)
    try:
        env.reset(np.ones(1, bool), np.zeros(1, np.int64))
        return env.spec
    except EnvironmentFault as fault:
        raise ConfigError(str(fault)) from fault
    finally:
        env.close()
