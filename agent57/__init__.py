"""Agent57 (Badia et al., 2020) as software: train it, resume it, load it, build on it."""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent57.config import Config as Config
    from agent57.config import ConfigError as ConfigError
    from agent57.envs.own import register_env as register_env
    from agent57.library import Run as Run
    from agent57.library import make_config as make_config
    from agent57.library import resume as resume
    from agent57.library import train as train
    from agent57.own_parts import register_controller as register_controller
    from agent57.own_parts import register_family as register_family
    from agent57.own_parts import register_intrinsic_reward as register_intrinsic_reward
    from agent57.own_parts import register_torso as register_torso
    from agent57.runtime.run import RunFailed as RunFailed
    from agent57.trained.hub import load_from_hub as load_from_hub
    from agent57.trained.hub import push_to_hub as push_to_hub
    from agent57.trained.loaded_policy import Policy as Policy
    from agent57.trained.loaded_policy import load as load

__version__ = "0.2.0"

# Idle OpenMP threads should sleep, not spin: spinning starves the emulators and other processes.
# OpenMP reads this when torch is loaded.
TORCH_CAME_FIRST = "torch" in sys.modules and "OMP_WAIT_POLICY" not in os.environ
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOMES = {  # public name: the module that defines it
    "Config": "agent57.config",
    "ConfigError": "agent57.config",
    "Policy": "agent57.trained.loaded_policy",
    "Run": "agent57.library",
    "RunFailed": "agent57.runtime.run",
    "load": "agent57.trained.loaded_policy",
    "load_from_hub": "agent57.trained.hub",
    "make_config": "agent57.library",
    "push_to_hub": "agent57.trained.hub",
    "register_env": "agent57.envs.own",
    "register_torso": "agent57.own_parts",
    "register_intrinsic_reward": "agent57.own_parts",
    "register_controller": "agent57.own_parts",
    "register_family": "agent57.own_parts",
    "resume": "agent57.library",
    "train": "agent57.library",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import a public name when it is first used: most of them need torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
