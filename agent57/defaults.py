"""The default settings of a run, from which `agent57 train` and every experiment start.

The kind of observation comes from the environment; `presets.py` holds the values.
"""

from dataclasses import replace

from agent57.config import Config, EnvConfig, Kind
from agent57.envs.games import ATARI_GAMES, with_paper_name
from agent57.envs.make import check_env
from agent57.presets import make_config


def observation_kind(env: str | EnvConfig) -> Kind:
    """Return a task's kind of observation; raise `ConfigError` if there is no such task."""
    config = with_paper_name(EnvConfig(name=env) if isinstance(env, str) else env)
    return "pixels" if config.name in ATARI_GAMES else check_env(config).kind


def default_config(env: str | EnvConfig, agent: str = "agent57", scale: str = "laptop") -> Config:
    """Return the default settings of an agent on a task at a scale.

    An id of an Atari game (ALE/Pong-v5) becomes the paper's name of the game, unless `raw` is set.
    """
    make_config(agent, scale)  # refuses a wrong name before an environment is made
    config = make_config(agent, scale, observation_kind(env))
    chosen = replace(config.env, name=env) if isinstance(env, str) else env
    return replace(config, env=with_paper_name(chosen))
