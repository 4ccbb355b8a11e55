"""The default settings of a run: what `agent57 train --env NAME` and every experiment start from.

The kind of observation comes from the environment; `presets.py` holds the values.
"""

from dataclasses import replace

from agent57.config import Config, EnvConfig, Kind
from agent57.envs.atari import ATARI_GAMES
from agent57.envs.make import check_env
from agent57.presets import make_config


def observation_kind(env: str) -> Kind:
    """Return what a task is observed as; a name that no environment has is a `ConfigError`."""
    return "pixels" if env in ATARI_GAMES else check_env(EnvConfig(name=env)).kind


def default_config(env: str, agent: str = "agent57", scale: str = "laptop") -> Config:
    """Return the settings of a system on a task at a scale."""
    make_config(agent, scale)  # a wrong name is answered before an environment is made
    config = make_config(agent, scale, observation_kind(env))
    return replace(config, env=replace(config.env, name=env))
