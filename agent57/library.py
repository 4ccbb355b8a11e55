"""The package as a library: train, resume, inspect and load runs from Python.

    run = agent57.train(env="CartPole-v1", frames=100_000, out="runs/cartpole", view="quiet")
    run.evaluate(episodes=20)["return_mean"]
    policy = run.policy()

A run started here is the same as on the command line: it has the same folder and numbers, and both
can resume each other's runs.
"""

import contextlib
import difflib
import inspect
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
import torch
from rich.console import Console

from agent57.config import Config, ConfigError, from_dict, require, to_dict
from agent57.defaults import default_config
from agent57.envs.gymnasium import trust as trust_env
from agent57.envs.make import announcements
from agent57.envs.own import Maker, name_of
from agent57.runtime import run as runs
from agent57.runtime.session import Callback, Hooks
from agent57.storage.checkpoint import newest_counters
from agent57.storage.folder import CHECKPOINTS, read_config
from agent57.storage.history import METRICS_FILE, read_lines
from agent57.terminal.evaluation_view import EvaluationView
from agent57.terminal.progress import say
from agent57.trained.evaluation import Trial, evaluate
from agent57.trained.loaded_policy import LoadOptions, Policy, load

ViewName = Literal["live", "plain", "quiet"]
WAIT_POLICY = "OMP_WAIT_POLICY"


class Table(dict[str, np.ndarray]):
    """Columns of a journal by name. Missing cells are nan, or None for text."""

    @classmethod
    def of(cls, rows: list[dict[str, Any]]) -> "Table":
        """Turn rows into columns."""
        names = dict.fromkeys(name for row in rows for name in row)
        return cls({name: _column([row.get(name) for row in rows]) for name in names})

    def to_pandas(self) -> Any:  # noqa: ANN401
        """Return the table as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise ConfigError("a table for pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(dict(self))

    def _repr_html_(self) -> str | None:
        """Show the table in a notebook if pandas is installed."""
        with contextlib.suppress(ConfigError):
            shown: str = self.to_pandas()._repr_html_()
            return shown
        return None


def _column(cells: list[Any]) -> np.ndarray:
    if any(isinstance(cell, str) for cell in cells):
        return np.array(cells, dtype=object)
    if None in cells:
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    return np.array(cells)


class Run:
    """A run folder: its settings, its records, and its trained policy."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = read_config(self.path)

    def __repr__(self) -> str:
        config = self.config
        return (
            f"<Run {self.path}: {config.run.agent} on {config.env.name}, "
            f"{self.frames:,} of {config.run.frames:,} frames>"
        )

    @property
    def frames(self) -> int:
        """Frames trained so far, by the last checkpoint."""
        return newest_counters(self.path / CHECKPOINTS).get("frames", 0)

    @property
    def is_finished(self) -> bool:
        """Whether the run has all its frames."""
        return self.frames >= self.config.run.frames

    def metrics(self) -> Table:
        """Return every line of metrics so far, as one array per scalar."""
        return Table.of(read_lines(self.path / METRICS_FILE))

    def episodes(self) -> Table:
        """Return every finished episode so far, as one array per field."""
        return Table.of(read_lines(self.path / "episodes.jsonl"))

    def evaluate(
        self,
        episodes: int = 10,
        *,
        arm: int | None = None,
        epsilon: float | None = None,
        seed: int = 0,
        video: str | Path | None = None,
        overlay: bool = True,
        device: str = "auto",
        view: ViewName = "quiet",
        trust: bool = False,
    ) -> dict[str, Any]:
        """Play whole episodes; return a dict of returns, lengths and means.

        The dict has the content of `agent57 evaluate --json`.

        arm: arm j of the family; by default the surest, by mean return less one standard error
        epsilon: probability of a random action; by default the evaluator's epsilon
        video: a file, .mp4 or .gif, for a film of the first episode; `overlay` shows values in it
        trust: run the code of an environment that is not an installed package
        """
        if trust:
            trust_env(self.config.env.name)
        trial = Trial(
            episodes=episodes,
            arm=arm,
            epsilon=epsilon,
            seed=seed,
            video=None if video is None else Path(video),
            overlay=overlay,
            device=device,
        )
        with _machine_settings():
            return evaluate(self.path, trial, EvaluationView(console_for(view)))

    def policy(
        self,
        arm: int | None = None,
        **options: Unpack[LoadOptions],
    ) -> Policy:
        """Load the policy of the newest checkpoint; `agent57.load` explains the options."""
        return load(self.path, arm, **options)

    def report(self, out: str | Path | None = None) -> Path:
        """Write the HTML report of the run, and return its path."""
        from agent57.reports.page import write_report

        return write_report([self.path], None if out is None else Path(out))


def make_config(
    agent: str = "agent57",
    scale: str = "laptop",
    env: str | Maker = "pong",
    *,
    frames: int | None = None,
    seed: int = 0,
    device: str = "auto",
    env_kwargs: Mapping[str, Any] | None = None,
    env_options: Mapping[str, Any] | None = None,
    **sections: Mapping[str, Any],
) -> Config:
    """Return the default configuration of a run, with fields of its sections replaced.

        make_config("r2d2", env="CartPole-v1", replay={"capacity": 50_000})

    env: a name, or a class or function that makes an environment (see `register_env`)
    env_kwargs: arguments of the environment
    env_options: fields of the section env, such as wrapper, observe or sticky_actions
    """
    described = {"name": name_of(env), "kwargs": _as_json(env_kwargs), **(env_options or {})}
    task = override(Config(), {"env": described}).env
    trust_env(task.name)
    config = default_config(task, agent, scale)
    run: dict[str, Any] = {"seed": seed, "device": device}
    if frames is not None:
        run["frames"] = frames
    return override(override(config, {"run": run}), sections)


def _as_json(keywords: Mapping[str, Any] | None) -> str:
    try:
        return json.dumps(dict(keywords), sort_keys=True) if keywords else ""
    except TypeError as error:
        raise ConfigError(
            f"env_kwargs must be plain values, which a run can store ({error}): "
            f"give env= a function that makes the environment"
        ) from None


def override(config: Config, sections: Mapping[str, Mapping[str, Any]]) -> Config:
    """Replace fields of sections, and check the result like a config file."""
    values = to_dict(config)
    for section, fields in sections.items():
        _check_section(section, values)
        require(
            isinstance(fields, Mapping),
            f"{section} must be a dict of its fields, such as {section}={{...}}, got {fields!r}",
        )
        for name in fields:
            _check_name("field", f"{section}.{name}", [f"{section}.{n}" for n in values[section]])
        plain = {name: _plain(value, values[section][name]) for name, value in fields.items()}
        values[section] = {**values[section], **plain}
    return from_dict(values)


def _plain(value: Any, former: Any) -> Any:  # noqa: ANN401
    """Convert a value for a config file: lists, Python's numbers, 1e6 as a whole number."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.generic):
        value = value.item()
    is_count = isinstance(former, int) and isinstance(value, float) and value.is_integer()
    return int(value) if is_count and not isinstance(former, bool) else value


def _check_section(name: str, values: dict[str, Any]) -> None:
    """Refuse an unknown section. For a field without its section, the error names the section."""
    sections = [section for section in values if section != "version"]
    home = next((s for s in sections if name not in sections and name in values[s]), None)
    if home is not None:
        argument = "env_options" if home == "env" else home
        raise ConfigError(f"{name!r} is a field of {home}: write {argument}={{{name!r}: ...}}")
    # A misspelt argument arrives here as a section.
    arguments = [n for n in inspect.signature(train).parameters if n != "sections"]
    close = difflib.get_close_matches(name, arguments, n=1, cutoff=0.8)
    if name not in sections and close:
        raise ConfigError(f"unknown argument {name!r}; did you mean {close[0]}?")
    _check_name("section", name, sections)


def _check_name(kind: str, name: str, known: list[str]) -> None:
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(known)}"
        raise ConfigError(f"unknown {kind} {name!r} of the configuration; {hint}")


def train(
    env: str | Maker | None = None,
    agent: str | None = None,
    scale: str | None = None,
    frames: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    *,
    view: ViewName = "live",
    config: Config | None = None,
    device: str | None = None,
    trust: bool = False,
    env_kwargs: Mapping[str, Any] | None = None,
    env_options: Mapping[str, Any] | None = None,
    on_metrics: Callback | None = None,
    on_episode: Callback | None = None,
    **sections: Mapping[str, Any],
) -> Run:
    """Train a new run, and return it when it is finished or was stopped.

    env: the task, "pong" by default: a name, or a class or function that makes an environment
        (see `register_env`)
    agent, scale: the preset; "agent57" at "laptop" scale by default
    frames: length of training; emulator frames on Atari, agent steps elsewhere
    out: the run folder; runs/<env> by default
    view: "live" is a panel on a terminal and lines elsewhere, "plain" is lines, "quiet" nothing
    config: a whole configuration (see `make_config`), instead of the task, agent and scale
    trust: with config=, run the code of an environment that is not an installed package
    env_kwargs: arguments of the environment
    env_options: fields of the section env, such as wrapper, observe or sticky_actions
    on_metrics, on_episode: called with each new line as a dict; return True to stop the run
    sections: fields of the configuration, such as replay={"capacity": 50_000}

    Ctrl-C stops the run with a checkpoint; then `run.is_finished` is False. In a thread other than
    the main thread, only callbacks can stop the run.
    """
    if config is None:
        names = (agent or "agent57", scale or "laptop", "pong" if env is None else env)
        config = make_config(*names, env_kwargs=env_kwargs, env_options=env_options)
    else:
        task = {"env": env, "agent": agent, "scale": scale, "env_kwargs": env_kwargs}
        require(isinstance(config, Config), f"config must come from make_config, got {config!r}")
        for name, value in {**task, "env_options": env_options}.items():
            require(value is None, f"config= already settles what to train: leave {name}= out")
        if trust:
            trust_env(config.env.name)
    run = {"frames": frames, "seed": seed, "device": device}
    given = {name: value for name, value in run.items() if value is not None}
    config = override(override(config, {"run": given}), sections)
    path = Path(out) if out is not None else default_folder(config)
    console = console_for(view)
    for text in announcements(env if isinstance(env, str) else config.env.name, config.env):
        say(console, text)
    with _machine_settings():
        runs.start(config, path, console, Hooks(on_metrics, on_episode))
    return Run(path)


def resume(
    path: str | Path,
    frames: int | None = None,
    *,
    view: ViewName = "live",
    trust: bool = False,
    on_metrics: Callback | None = None,
    on_episode: Callback | None = None,
) -> Run:
    """Continue a run exactly from its last checkpoint; `frames` may be raised.

    trust: run the code of an environment that is not an installed package
    """
    if trust:
        trust_env(read_config(Path(path)).env.name)
    with _machine_settings():
        hooks = Hooks(on_metrics, on_episode)
        runs.resume(Path(path), frames, console_for(view), hooks=hooks)
    return Run(path)


def default_folder(config: Config) -> Path:
    """Return the default folder of a run."""
    return Path("runs") / config.env.name.replace("/", "-")


def console_for(view: ViewName) -> Console:
    """Return the console for a view."""
    known = get_args(ViewName)
    require(view in known, f"view {view!r} is not one of {', '.join(known)}")
    if view == "quiet":
        return Console(quiet=True)
    return Console(force_terminal=False) if view == "plain" else Console()


@contextlib.contextmanager
def _machine_settings() -> Iterator[None]:
    """Warn if idle threads will spin, and restore the caller's number of threads afterwards.

    Importing agent57 asks idle OpenMP threads to sleep. OpenMP reads the setting when torch loads.
    """
    if os.environ.get(WAIT_POLICY, "").upper() != "PASSIVE" or _came_too_late():
        warnings.warn(
            "idle OpenMP threads will spin and take several times the core time: import agent57 "
            "before torch, or set OMP_WAIT_POLICY=PASSIVE before Python starts",
            RuntimeWarning,
            stacklevel=4,
        )
    num_threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def _came_too_late() -> bool:
    return bool(getattr(sys.modules["agent57"], "TORCH_CAME_FIRST", False))
