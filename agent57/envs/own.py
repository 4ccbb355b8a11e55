"""Environments that a user's program registers: classes, functions and vector makers."""

import inspect
from collections.abc import Callable
from typing import Any

from agent57.config import ConfigError, require

# Makes a Gymnasium environment, or a vector environment if it takes `num_envs`.
Maker = Callable[..., Any]

_makers: dict[str, Maker] = {}


def register_env(name: str, maker: Maker) -> None:
    """Give an environment a name for `env=` and `--env`.

    maker: a class or function that returns a Gymnasium environment. If it takes `num_envs`, it
    returns a vector environment with `num_envs` lanes and AutoresetMode.DISABLED.

    A run stores the name only. Register the same name again before resuming or evaluating the run.
    """
    require(bool(name.strip()), "an environment needs a name")
    require(callable(maker), f"environment {name!r} must be a class or a function, got {maker!r}")
    _makers[name] = maker


def maker_of(name: str) -> Maker | None:
    """Return the maker that was registered under a name, if any."""
    return _makers.get(name)


def takes_num_envs(maker: Maker) -> bool:
    """Whether a maker makes vector environments."""
    try:
        return "num_envs" in inspect.signature(maker).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return False


def name_of(env: str | Maker) -> str:
    """Return the name of a task. A class or function is registered under its `__name__`."""
    if isinstance(env, str):
        return env
    if not callable(env):
        kind = type(env).__name__
        text = f"env must be a name, a class or a function that makes an environment, got {kind}"
        if hasattr(env, "reset"):  # it is an environment already
            argument = " num_envs" if hasattr(env, "num_envs") else ""
            text += (
                f": a run makes its own lanes, so give a function that makes the environment, such "
                f"as lambda{argument}: {kind}(...)"
            )
        raise ConfigError(text)
    name = getattr(env, "__name__", type(env).__name__)
    name = "python" if name == "<lambda>" else name
    register_env(name, env)
    return name
