"""Lanes of any Gymnasium environment with discrete actions.

Preprocessing only changes the layout: images become planes, everything else becomes a vector.
"""

import contextlib
import difflib
import enum
import functools
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import multiprocessing
import os
import re
import signal
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate

from agent57.config import ConfigError, EnvConfig, require
from agent57.envs.lanes import LoggedEnv, pending
from agent57.envs.own import maker_of, takes_num_envs
from agent57.envs.spec import EnvironmentFault, Step
from agent57.envs.views import actions_of, part_names, view_of
from agent57.types import EnvSpec

# Beginning of an id: the parts of its observations that agents see unless `env.observe` is set.
USUAL_PARTS = {"MiniGrid-": ("image",)}
# Groups of entry points that register ids. Gymnasium called these itself before version 1.0.
ENTRY_POINT_GROUPS = ("gymnasium.envs", "gymnasium.envs.__root__")

if importlib.util.find_spec("ale_py") is not None:
    gymnasium.register_envs(importlib.import_module("ale_py"))


class GymnasiumEnv(LoggedEnv):
    """E lanes of one Gymnasium id, all in this process or each in its own.

    `max_episode_frames` caps an episode in addition to the environment's own time limit. One step
    counts as one frame.
    """

    def __init__(self, config: EnvConfig, num_lanes: int) -> None:
        spec, self._render_mode = _survey(config)
        super().__init__(spec, num_lanes)
        self._max_steps = config.max_episode_frames
        self._step_seconds = config.step_seconds
        self._envs: Any = _make_lanes(config, num_lanes, self._render_mode)

    def reset(self, lanes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Start episodes in the lanes of the mask; return all lanes' current observations."""
        self._lanes.check_reset(lanes, seeds)
        if lanes.any():
            options = {"reset_mask": lanes.copy()}
            self._observation, _ = self._ask("reset", seed=seeds.tolist(), options=options)
            self._check_finite("observation", self._observation)
            self._began(lanes, seeds)
        return self._observation

    def step(self, action: np.ndarray) -> Step:
        """Play one action per lane."""
        action = self._lanes.check_action(action)
        played = self._ask("step", action)
        self._observation, reward, terminated, truncated, _ = played
        reward = reward.astype(np.float32)
        self._check_finite("observation", self._observation)
        self._check_finite("reward", reward)
        self._log.record(action, reward)
        truncated = truncated | (self._log.num_steps >= self._max_steps)
        return self._outcome(reward, terminated, truncated)

    def render(self, lane: int) -> np.ndarray:
        """Return the lane's picture as the environment draws it, [Y, X, 3] uint8."""
        self._lanes.check_lane(lane)
        if self._render_mode is None:
            raise ValueError(f"{self.spec.name} draws no pictures: it has no rgb_array render mode")
        if isinstance(self._envs, SyncVectorEnv):
            return _picture(self._call("render", self._envs.envs[lane].render))
        return _picture(self._call("render", self._envs.render)[lane])

    def close(self) -> None:
        """Release the lanes and their processes."""
        self._envs.close()

    def _ask(self, what: str, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        """Let all lanes step or reset, with a time limit for lanes in other processes."""
        envs = self._envs
        if not isinstance(envs, AsyncVectorEnv):
            return self._call(what, getattr(envs, what), *args, **kwargs)
        self._call(what, getattr(envs, f"{what}_async"), *args, **kwargs)
        return self._call(what, getattr(envs, f"{what}_wait"), timeout=self._step_seconds)

    def _call(
        self,
        what: str,
        function: Callable[..., Any],
        *args: object,
        **kwargs: object,
    ) -> Any:  # noqa: ANN401
        """Call the lanes and return their answer; any error becomes an `EnvironmentFault`."""
        try:
            with pending(f"{self.spec.name}: {what}"):
                return function(*args, **kwargs)
        except KeyboardInterrupt:
            raise
        except multiprocessing.TimeoutError:
            lanes = ", ".join(str(lane) for lane in self._silent_lanes())
            self._end_processes()
            raise EnvironmentFault(
                f"{self.spec.name}: lane {lanes} did not {what} within env.step_seconds "
                f"({self._step_seconds:g} s)"
            ) from None
        except BaseException as cause:  # sys.exit() in an environment is a fault too
            self._end_processes()
            if isinstance(cause, EnvironmentFault):
                raise
            raise EnvironmentFault(f"{self.spec.name}: {_named(cause)}") from cause

    def _silent_lanes(self) -> list[int]:
        """Return the lanes in other processes that have not answered."""
        pipes = enumerate(self._envs.parent_pipes)
        return [lane for lane, pipe in pipes if pipe is not None and not pipe.poll(0)]

    def _end_processes(self) -> None:
        """Kill the lanes' own processes, if they have any: after a fault they may not answer."""
        if isinstance(self._envs, AsyncVectorEnv):
            for process in self._envs.processes:
                process.kill()
                process.join()
            self._envs.closed = True

    def _check_finite(self, name: str, value: np.ndarray) -> None:
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            is_finite = np.isfinite(value).reshape(self.num_lanes, -1).all(axis=1)
            raise EnvironmentFault(
                f"{self.spec.name}: {name} of lane {int(np.argmin(is_finite))} is not finite"
            )


class _Lane(gymnasium.Wrapper):
    """One environment with the agent's view of it. Its errors name the lane."""

    def __init__(self, config: EnvConfig, lane: int, render_mode: str | None) -> None:
        if multiprocessing.parent_process() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the player's process handles Ctrl-C
        env = _make(config, render_mode)
        super().__init__(env)
        view = view_of(config.name, env.observation_space, parts_seen(config))
        num_actions, self._meant = actions_of(config.name, env.action_space)
        self._label = f"{config.name}: lane {lane}"
        self._see = view.see
        low, high = (-np.inf, np.inf) if view.kind == "vector" else (0, 255)
        self.observation_space = spaces.Box(low, high, view.shape, np.dtype(view.dtype).type)
        self.action_space = spaces.Discrete(num_actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        with self._watched("reset"):
            return self._see(self.env.reset(seed=seed, options=options)[0]), {}

    def step(self, action: np.integer) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        with self._watched("step"):
            meant = self._meant(int(action))
            observation, reward, terminated, truncated, _ = self.env.step(meant)
            return self._see(observation), float(reward), bool(terminated), bool(truncated), {}

    @contextlib.contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        """Mark a call as under way, and turn any error into a fault that names the lane."""
        try:
            with pending(f"{self._label}: {what}"):
                yield
        except (KeyboardInterrupt, EnvironmentFault):
            raise
        except BaseException as cause:  # sys.exit() in an environment is a fault too
            raise EnvironmentFault(
                f"{self._label} failed to {what}: {_named(cause)}{_place(cause)}"
            ) from cause


class _VectorLanes:
    """The lanes of a vector environment from a user's program, with the agent's view of them."""

    def __init__(self, config: EnvConfig, envs: VectorEnv) -> None:
        mode = envs.metadata.get("autoreset_mode")
        require(
            mode == AutoresetMode.DISABLED,
            f"env.name {config.name!r} resets lanes by itself ({mode}): make it with "
            f"AutoresetMode.DISABLED, and let reset take options['reset_mask']",
        )
        self._envs = envs
        self._view = view_of(config.name, envs.single_observation_space, parts_seen(config))
        _, self._meant = actions_of(config.name, envs.single_action_space)
        self.close = envs.close
        self.render = envs.render

    def reset(
        self, *, seed: list[int], options: dict[str, Any]
    ) -> tuple[np.ndarray, dict[str, Any]]:
        return self._seen(self._envs.reset(seed=seed, options=options)[0]), {}  # type: ignore[arg-type]

    def step(self, action: np.ndarray) -> tuple[np.ndarray, ...]:
        meant = [self._meant(int(index)) for index in action]
        actions = np.stack(meant) if isinstance(meant[0], np.ndarray) else np.array(meant)
        observation, reward, terminated, truncated, _ = self._envs.step(actions)
        ends = (np.asarray(terminated, bool), np.asarray(truncated, bool))
        return self._seen(observation), np.asarray(reward), *ends, np.empty(0)

    def _seen(self, observation: Any) -> np.ndarray:  # noqa: ANN401
        rows = iterate(self._envs.observation_space, observation)
        return np.stack([self._view.see(row) for row in rows])


def _make_lanes(config: EnvConfig, num_lanes: int, render_mode: str | None) -> Any:  # noqa: ANN401
    """Make E lanes one by one, or with a registered maker of vector environments."""
    maker = maker_of(config.name)
    if maker is not None and takes_num_envs(maker):
        return _VectorLanes(config, maker(num_envs=num_lanes, **config.keywords))
    makers = [functools.partial(_Lane, config, lane, render_mode) for lane in range(num_lanes)]
    vector = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[config.parallel]
    return vector(makers, autoreset_mode=AutoresetMode.DISABLED)


def parts_seen(config: EnvConfig) -> tuple[str, ...]:
    """Return the parts of an observation that the agent sees; () means all parts."""
    if config.observe:
        return config.observe
    usual = (parts for prefix, parts in USUAL_PARTS.items() if config.name.startswith(prefix))
    return next(usual, ())


def parts_unseen(config: EnvConfig) -> list[str]:
    """Return the parts of the observations that the agent does not see."""
    seen, maker = parts_seen(config), maker_of(config.name)
    is_vector = maker is not None and takes_num_envs(maker)
    env: Any = _make_one_vector(config) if is_vector else _make(config, None)
    try:
        space = env.single_observation_space if is_vector else env.observation_space
        return [name for name in part_names(space) if seen and name not in seen]
    finally:
        env.close()


def unknown_name(name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown name, with the nearest known names."""
    names = {_bare(candidate): candidate for candidate in (*gymnasium.registry, *known)}
    nearest = [names[match] for match in difflib.get_close_matches(_bare(name), names, cutoff=0.75)]
    hint = (
        "give a paper game such as pong, random_coin, or a registered Gymnasium id; an id that a "
        f"package registers is package:id, such as {_example(name)}; a class or function of your "
        f"program needs agent57.register_env first"
    )
    package, _, name_there = name.rpartition(":")
    if package:
        hint = f"{package} registers no id and has no class or function {name_there}"
    if nearest:
        hint = f"did you mean {' or '.join(nearest)}?"
    if name.startswith("ALE/") and importlib.util.find_spec("ale_py") is None:
        hint = "Atari needs pip install 'agent57[atari]'"
    return ConfigError(f"env.name {name!r} is not a known environment: {hint}")


def _bare(name: str) -> str:
    """Strip the version from an id, so that ids are compared by their names."""
    return re.sub(r"-v\d+$", "", name.lower())


def _example(name: str) -> str:
    """Write a name as package:id, preferring an installed package with a similar name."""
    word = re.split(r"[-/:_]", name)[0].lower()
    if not word.isidentifier():
        return "package:Task-v0"
    guesses = (f"{word}_env", word, f"gym_{word}")
    installed = (guess for guess in guesses if importlib.util.find_spec(guess) is not None)
    return f"{next(installed, guesses[0])}:{name}"


def is_registered(name: str) -> bool:
    """Whether Gymnasium knows the id, once the package that registers it is imported.

    `package:id` imports the package first, as in Gymnasium itself.
    """
    package, _, name_there = name.rpartition(":")
    if not package and name.startswith(("MiniGrid", "BabyAI")):
        package = "minigrid"
    if package:
        _import_package(name, package)
        if name_there not in gymnasium.registry:
            _register_declared(package)
    return name_there in gymnasium.registry


def import_modules(config: EnvConfig) -> None:
    """Import the modules that a task names. They may also register parts of the agent."""
    package = config.name.rpartition(":")[0]
    if package:
        _import_package(config.name, package)
    if config.wrapper:
        import_named(config, config.wrapper.partition(":")[0])


def _import_package(name: str, package: str) -> None:
    _check_trusted(name, package)
    try:
        importlib.import_module(package)
    except ImportError as cause:
        raise ConfigError(f"env.name {name!r} {_lacking(package, cause)}") from cause


def _lacking(package: str, cause: ImportError) -> str:
    """Say whether the package itself is missing, or something that the package imports."""
    top = package.partition(".")[0]
    if (cause.name or top).partition(".")[0] != top:
        return f"cannot import {package}: {_first_line(cause)}"
    if top == "minigrid":
        return "needs the package minigrid: pip install 'agent57[minigrid]'"
    # PyPI may hold an unrelated package with the name of the user's own file.
    return (
        f"needs the package {top}: install it (pip install {top}, if PyPI has it under this name), "
        f"or start in the folder of {top}.py"
    )


def _register_declared(package: str) -> None:
    """Call the functions that register a package's ids, as its installed metadata declares."""
    for group in ENTRY_POINT_GROUPS:
        for entry in importlib.metadata.entry_points(group=group):
            if entry.module.partition(".")[0] == package.partition(".")[0]:
                entry.load()()


TRUSTED: set[str] = set()  # names of environments that may import any module


def trust(name: str) -> None:
    """Let an environment name import any module: the user typed or approved the name."""
    TRUSTED.add(name)


def _check_trusted(name: str, package: str) -> None:
    """Refuse to import a module that is not installed: it may have come with a run folder."""
    module = package.partition(".")[0]
    if name in TRUSTED or module in sys.modules:
        return
    # Finding a top-level module does not import it. The working folder is searched too, because it
    # is not on the path of a command.
    here = importlib.machinery.PathFinder.find_spec(module, [os.getcwd()])
    spec = importlib.util.find_spec(module) or here
    if spec is not None and not _is_installed(module, spec):
        raise ConfigError(
            f"env.name {name!r} would run {spec.origin or module}, which is not an installed "
            f"package: give --trust (trust=True in Python) if you know that code"
        )


def needs_trust(config: EnvConfig) -> bool:
    """Whether a task that was made comes from a module that is not installed."""
    packages = (config.name.rpartition(":")[0], config.wrapper.partition(":")[0])
    modules = [package.partition(".")[0] for package in packages]
    specs = {module: getattr(sys.modules.get(module), "__spec__", None) for module in modules}
    return any(spec is not None and not _is_installed(m, spec) for m, spec in specs.items())


def _is_installed(module: str, spec: importlib.machinery.ModuleSpec) -> bool:
    """Whether a module belongs to Python or to an installed (or editable) package."""
    if spec.origin in ("built-in", "frozen"):
        return True
    paths = sysconfig.get_paths()
    libraries = [paths["purelib"], paths["platlib"], site.getusersitepackages()]
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    roots = [Path(root).resolve() for root in (*libraries, paths["stdlib"], paths["platstdlib"])]
    if places and all(any(r in Path(p).resolve().parents for r in roots) for p in places):
        return True
    installed = importlib.metadata.distributions(path=libraries)
    return any(module in (d.read_text("top_level.txt") or "").split() for d in installed)


def _make(config: EnvConfig, render_mode: str | None) -> gymnasium.Env:
    """Make one environment with its arguments and its wrapper."""
    name = config.name
    try:
        maker, keywords = _maker(name), config.keywords
        if maker is None:
            env = gymnasium.make(
                name, render_mode=render_mode, disable_env_checker=True, **keywords
            )
        else:
            if "render_mode" in inspect.signature(maker).parameters:
                keywords = {"render_mode": render_mode, **keywords}
            env = maker(**keywords)
        _check_made(f"env.name {name!r}", env, gymnasium.Env)
        if config.wrapper:
            env = _wrapper(config)(env)
            _check_made(f"env.wrapper {config.wrapper!r}", env, gymnasium.Env)
        return env
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as cause:  # sys.exit() too
        reason = f"{_first_line(cause)}{_place(cause)}"
        raise ConfigError(f"env.name {name!r} cannot be made: {reason}") from cause


def _check_made(what: str, made: object, kind: type) -> None:
    """Refuse an object that is no environment, such as None from a function without a return."""
    got = "None" if made is None else f"an object of {type(made).__name__}"
    path = "vector.VectorEnv" if kind is VectorEnv else "Env"
    require(isinstance(made, kind), f"{what} must return a gymnasium.{path}, got {got}")


def _maker(name: str) -> Callable[..., gymnasium.Env] | None:
    """Return the function that makes an environment; None for an id that Gymnasium makes."""
    own = maker_of(name)
    if own is None and not is_registered(name):
        package, _, attribute = name.rpartition(":")
        own = getattr(sys.modules.get(package), attribute, None) if package else None
        if not callable(own):
            raise unknown_name(name, ())
    return own


def _wrapper(config: EnvConfig) -> Callable[[gymnasium.Env], gymnasium.Env]:
    module, _, function = config.wrapper.partition(":")
    import_named(config, module)
    wrapper = getattr(sys.modules[module], function, None)
    if not callable(wrapper):
        raise ConfigError(f"env.wrapper {config.wrapper!r}: {module} has no function {function}")
    found: Callable[[gymnasium.Env], gymnasium.Env] = wrapper
    return found


def import_named(config: EnvConfig, module: str) -> None:
    """Import the module of a wrapper, if the task is trusted or the module is installed."""
    _check_trusted(config.name, module)
    try:
        importlib.import_module(module)
    except ImportError as cause:
        raise ConfigError(
            f"env.wrapper {config.wrapper!r} needs the module {module}: {cause}"
        ) from cause


def _survey(config: EnvConfig) -> tuple[EnvSpec, str | None]:
    """Return the environment's properties that a player needs, and its render mode or None."""
    name, maker = config.name, maker_of(config.name)
    is_vector = maker is not None and takes_num_envs(maker)
    env: Any = _make_one_vector(config) if is_vector else _make(config, None)
    try:
        num_actions, _ = actions_of(
            name, env.single_action_space if is_vector else env.action_space
        )
        space = env.single_observation_space if is_vector else env.observation_space
        view = view_of(name, space, parts_seen(config))
        spec = EnvSpec(
            name=name,
            kind=view.kind,
            observation_shape=view.shape,
            observation_dtype=view.dtype,
            num_actions=num_actions,
            frames_per_step=1,
            max_value=view.max_value,
            action_names=_action_names(env, num_actions),
            image_shape=view.image_shape,
        )
        can_draw = not is_vector and "rgb_array" in env.metadata.get("render_modes", ())
        return spec, "rgb_array" if can_draw else None
    finally:
        env.close()


def _make_one_vector(config: EnvConfig) -> VectorEnv:
    maker = maker_of(config.name)
    assert maker is not None
    try:
        made: VectorEnv = maker(num_envs=1, **config.keywords)
    except Exception as cause:
        raise ConfigError(
            f"env.name {config.name!r} cannot be made: {_first_line(cause)}"
        ) from cause
    _check_made(f"env.name {config.name!r}", made, VectorEnv)
    return made


def _picture(drawn: Any) -> np.ndarray:  # noqa: ANN401
    """Return a drawing as bytes; some packages draw in float numbers from 0 to 1."""
    picture = np.asarray(drawn)
    if picture.dtype.kind == "f":
        picture = np.rint(255 * picture.clip(0, 1)).astype(np.uint8)
    return picture


def _action_names(env: gymnasium.Env, num_actions: int) -> tuple[str, ...]:
    """Return the actions' names from MiniGrid's enum or Atari's meanings; () if there are none."""
    actions = getattr(env.unwrapped, "actions", None)
    if isinstance(actions, type) and issubclass(actions, enum.Enum):
        names = tuple(action.name.lower() for action in actions)
    elif hasattr(env.unwrapped, "get_action_meanings"):
        names = tuple(str(name).lower() for name in env.unwrapped.get_action_meanings())
    else:
        return ()
    return names[:num_actions] if len(names) >= num_actions else ()


def _first_line(cause: BaseException) -> str:
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def _named(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {_first_line(cause)}"


def _place(cause: BaseException) -> str:
    """Return the file and line that raised an error; "" if this file raised it."""
    frames = traceback.extract_tb(cause.__traceback__)
    if not frames or frames[-1].filename == __file__:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
