"""Any Gymnasium environment with discrete actions, many lanes at once. No preprocessing but the
layout: images as planes, everything else as a vector.
"""

import contextlib
import difflib
import enum
import functools
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import multiprocessing
import signal
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import ale_py
import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from agent57.config import ConfigError, EnvConfig, Kind, require
from agent57.envs.episode_log import EpisodeLog, check_fits, rebuild
from agent57.envs.pending import pending
from agent57.envs.spec import EnvironmentFault, EpisodeRecord, Lanes, Step
from agent57.types import EnvSpec

MIN_PIXELS = 36  # rows and columns from which an image is pixels and not a small grid

gymnasium.register_envs(ale_py)


class GymnasiumEnv:
    """E lanes of one Gymnasium id, in this process or one process each.

    `max_episode_frames` caps an episode beside the environment's own time limit, one frame a step.
    """

    def __init__(self, config: EnvConfig, num_lanes: int) -> None:
        self.spec, self._render_mode = _survey(config.name)
        self.num_lanes = num_lanes
        self._lanes = Lanes(config.name, num_lanes, self.spec.num_actions)
        self._log = EpisodeLog(num_lanes, self.spec.num_actions)
        self._max_steps = config.max_episode_frames
        self._step_seconds = config.step_seconds
        makers = [
            functools.partial(_Lane, config.name, lane, self._render_mode)
            for lane in range(num_lanes)
        ]
        vector = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[config.parallel]
        self._envs: Any = vector(makers, autoreset_mode=AutoresetMode.DISABLED)
        self._observation = np.zeros(
            (num_lanes, *self.spec.observation_shape), self.spec.observation_dtype
        )

    def reset(self, lanes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Start a new episode in the lanes of the mask; the current observations of all lanes."""
        self._lanes.check_reset(lanes, seeds)
        if lanes.any():
            options = {"reset_mask": lanes.copy()}
            self._observation, _ = self._ask("reset", seed=seeds.tolist(), options=options)
            self._check_finite("observation", self._observation)
            self._lanes.begin(lanes)
            self._log.begin(lanes, seeds)
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
        truncated = (truncated | (self._log.num_steps >= self._max_steps)) & ~terminated
        self._lanes.end(terminated | truncated)
        return Step(
            observation=self._observation,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
        )

    def render(self, lane: int) -> np.ndarray:
        """The lane's picture as the environment draws it, [Y, X, 3] uint8."""
        self._lanes.check_lane(lane)
        if self._render_mode is None:
            raise ValueError(f"{self.spec.name} draws no pictures: it has no rgb_array render mode")
        if isinstance(self._envs, SyncVectorEnv):
            return np.asarray(self._call("render", self._envs.envs[lane].render))
        return np.asarray(self._call("render", self._envs.render)[lane])

    def running_episode(self, lane: int) -> EpisodeRecord:
        """Return the seed and the actions of the lane's episode."""
        return self._log.record_of(lane)

    def state_dict(self) -> dict[str, Any]:
        """Seeds, actions and current observations of the running episodes."""
        self._lanes.check_begun()
        return {
            "name": self.spec.name,
            "is_playing": torch.from_numpy(self._lanes.is_playing.copy()),
            "observation": torch.from_numpy(self._observation.copy()),
            **self._log.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Replay the saved episodes; a mask of the lanes that came out the same."""
        check_fits(self, state)
        return rebuild(self, state)

    def close(self) -> None:
        """Release the lanes and their processes."""
        self._envs.close()

    def _ask(self, what: str, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        """Have all lanes step or reset; those in processes of their own have limited time."""
        envs = self._envs
        if isinstance(envs, SyncVectorEnv):
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
        """Return the lanes' answer; whatever goes wrong in them comes out as EnvironmentFault."""
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
        """Lanes in processes of their own that have not answered."""
        pipes = enumerate(self._envs.parent_pipes)
        return [lane for lane, pipe in pipes if pipe is not None and not pipe.poll(0)]

    def _end_processes(self) -> None:
        """Kill lanes that have processes of their own: after a fault they may not answer."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """How a player sees the observations of one space."""

    kind: Kind
    shape: tuple[int, ...]
    max_value: int
    see: Callable[[Any], np.ndarray]

    @property
    def dtype(self) -> Literal["uint8", "float32"]:
        return "float32" if self.kind == "vector" else "uint8"


class _Lane(gymnasium.Wrapper):
    """One environment as its player sees it; what it raises says which lane it was."""

    def __init__(self, name: str, lane: int, render_mode: str | None) -> None:
        if multiprocessing.parent_process() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the player to answer
        env = _make(name, render_mode)
        super().__init__(env)
        actions = cast(spaces.Discrete, env.action_space)
        view = _view(name, env.observation_space)
        self._label = f"{name}: lane {lane}"
        self._see = view.see
        self._first_action = int(actions.start)
        low, high = (-np.inf, np.inf) if view.kind == "vector" else (0, view.max_value)
        self.observation_space = spaces.Box(low, high, view.shape, np.dtype(view.dtype).type)
        self.action_space = spaces.Discrete(int(actions.n))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        with self._watched("reset"):
            return self._see(self.env.reset(seed=seed, options=options)[0]), {}

    def step(self, action: np.integer) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        with self._watched("step"):
            observation, reward, terminated, truncated, _ = self.env.step(
                self._first_action + int(action)
            )
            return self._see(observation), float(reward), bool(terminated), bool(truncated), {}

    @contextlib.contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        """Mark a call as under way, and turn whatever it raises into a fault with its lane."""
        try:
            with pending(f"{self._label}: {what}"):
                yield
        except (KeyboardInterrupt, EnvironmentFault):
            raise
        except BaseException as cause:  # sys.exit() in an environment is a fault too
            raise EnvironmentFault(f"{self._label} failed to {what}: {_named(cause)}") from cause


def unknown_name(name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that is neither in `known` nor registered, with the nearest that are."""
    names = {candidate.lower(): candidate for candidate in (*gymnasium.registry, *known)}
    nearest = [names[match] for match in difflib.get_close_matches(name.lower(), names)]
    hint = "give a paper game such as pong, random_coin, or a registered Gymnasium id"
    if nearest:
        hint = f"did you mean {' or '.join(nearest)}?"
    return ConfigError(f"env.name {name!r} is not a known environment: {hint}")


def is_registered(name: str) -> bool:
    """Whether Gymnasium knows the id, once the package that registers it is imported.

    `package:id` imports any package first, as in Gymnasium itself.
    """
    package, _, name_there = name.rpartition(":")
    if not package and name.startswith(("MiniGrid", "BabyAI")):
        package = "minigrid"
    if package:
        _check_trusted(name, package)
        try:
            importlib.import_module(package)
        except ImportError as cause:
            extra = "agent57[minigrid]" if package == "minigrid" else package
            raise ConfigError(
                f"env.name {name!r} needs the package {package}: pip install {extra}"
            ) from cause
    return name_there in gymnasium.registry


_trusted: set[str] = set()


def trust(name: str) -> None:
    """Let an environment name import any module: the user typed it, or vouches for it."""
    _trusted.add(name)


def _check_trusted(name: str, package: str) -> None:
    """Refuse to import a module that only lies around: a run folder may have brought it along."""
    module = package.partition(".")[0]
    if name in _trusted or module in sys.modules:
        return
    spec = importlib.util.find_spec(module)  # imports nothing: it is a top-level name
    if spec is not None and not _is_installed(module, spec):
        raise ConfigError(
            f"env.name {name!r} would run {spec.origin or module}, which is not an installed "
            f"package: give --trust (trust=True in Python) if you know that code"
        )


def _is_installed(module: str, spec: importlib.machinery.ModuleSpec) -> bool:
    """Whether a module belongs to Python or to an installed package, editable ones included."""
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


def _make(name: str, render_mode: str | None) -> gymnasium.Env:
    try:
        if not is_registered(name):
            raise unknown_name(name, ())
        return gymnasium.make(name, render_mode=render_mode, disable_env_checker=True)
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as cause:  # sys.exit() too
        raise ConfigError(f"env.name {name!r} cannot be made: {_first_line(cause)}") from cause


def _survey(name: str) -> tuple[EnvSpec, str | None]:
    """What a player must know of the environment, and how it draws itself if it can."""
    env = _make(name, None)
    try:
        actions = env.action_space
        if not isinstance(actions, spaces.Discrete):
            raise ConfigError(
                f"env.name {name!r} has {type(actions).__name__} actions: "
                f"choose an environment with Discrete actions"
            )
        view = _view(name, env.observation_space)
        spec = EnvSpec(
            name=name,
            kind=view.kind,
            observation_shape=view.shape,
            observation_dtype=view.dtype,
            num_actions=int(actions.n),
            frames_per_step=1,
            max_value=view.max_value,
            action_names=_action_names(env, int(actions.n)),
        )
        can_draw = "rgb_array" in env.metadata.get("render_modes", ())
        return spec, "rgb_array" if can_draw else None
    finally:
        env.close()


def _action_names(env: gymnasium.Env, num_actions: int) -> tuple[str, ...]:
    """Names of the actions where the environment has them: as MiniGrid's enum, or as Atari's."""
    actions = getattr(env.unwrapped, "actions", None)
    if isinstance(actions, type) and issubclass(actions, enum.Enum):
        names = tuple(action.name.lower() for action in actions)
    elif hasattr(env.unwrapped, "get_action_meanings"):
        names = tuple(str(name).lower() for name in env.unwrapped.get_action_meanings())
    else:
        return ()
    return names[:num_actions] if len(names) >= num_actions else ()


def _view(name: str, space: spaces.Space) -> _View:
    """How observations of `space` become planes or a vector, or the reason why they cannot."""
    if isinstance(space, spaces.Dict):
        require(
            "image" in space.spaces,
            f"env.name {name!r} observes a dict without an image ({', '.join(space.spaces)}): "
            f"wrap it to give an array, or one under the key image",
        )
        inner = _view(name, space["image"])
        return _View(
            kind=inner.kind,
            shape=inner.shape,
            max_value=inner.max_value,
            see=lambda observation: inner.see(observation["image"]),
        )
    if isinstance(space, spaces.Discrete):
        start, row = int(space.start), np.eye(int(space.n), dtype=np.float32)
        return _View(
            kind="vector", shape=(int(space.n),), max_value=1, see=lambda index: row[index - start]
        )
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return _View(
            kind="vector",
            shape=space.shape,
            max_value=1,
            see=lambda vector: np.asarray(vector, np.float32),
        )
    if (
        not isinstance(space, spaces.Box)
        or len(space.shape) not in (2, 3)
        or space.dtype not in (np.uint8, np.bool_)
    ):
        raise ConfigError(
            f"env.name {name!r} observes {_one_line(space)}: "
            f"wrap it to give a uint8 image [Y, X] or [Y, X, C], or a vector"
        )
    return _image_view(space)


def _image_view(space: spaces.Box) -> _View:
    order: tuple[int, ...]  # of the axes, planes first
    if len(space.shape) == 2:
        order = (0, 1)
    elif space.shape[0] <= 4 < space.shape[2]:  # planes already, such as a stack of frames
        order = (0, 1, 2)
    else:
        order = (2, 0, 1)
    shape = (1, *space.shape)[-3:] if order == (0, 1) else tuple(space.shape[i] for i in order)
    return _View(
        kind="pixels" if min(shape[1:]) >= MIN_PIXELS else "grid",
        shape=shape,
        max_value=max(1, int(space.high.max())),
        see=lambda image: np.asarray(image, np.uint8).transpose(order).reshape(shape),
    )


def _first_line(cause: BaseException) -> str:
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]


def _named(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {_first_line(cause)}"


def _one_line(space: spaces.Space) -> str:
    return " ".join(str(space).split())
