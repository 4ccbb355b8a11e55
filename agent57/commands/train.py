"""The command `agent57 train`."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from agent57.commands.options import parse, vouch
from agent57.config import Config, ConfigError, EnvConfig, require
from agent57.presets import flatten, make_config
from agent57.storage.folder import read_config_file
from agent57.terminal.progress import say, waiting

DEFAULT_ENV = "pong"
SETTLED = {  # fields that have an option of their own
    "--run.agent": "--agent",
    "--run.scale": "--scale",
    "--run.kind": "--env",
    "--run.frames": "--frames",
    "--run.seed": "--seed",
    "--run.device": "--device",
    "--run.runtime": "--runtime",
    "--env.name": "--env",
    "--env.kwargs": "--env-kwargs",
    "--env.wrapper": "--wrapper",
}


@dataclass(frozen=True, kw_only=True)
class Train:
    """Train an agent.

    Any field of the configuration may follow as --group.field value; `agent57 presets agent57`
    shows them.
    """

    config: Path | None = None
    """Start from the settings in this file (the config.json of a run) instead of the defaults."""
    trust: bool = False
    """With --config: run the code of an environment that is not an installed package."""
    agent: str | None = None
    """The system to train, agent57 by default; see `agent57 presets`."""
    env: str | None = None
    """A game (pong by default), random_coin, a Gymnasium id, package:id, or module:Class."""
    env_kwargs: tuple[str, ...] = ()
    """Arguments of a Gymnasium environment, as name=value; values are JSON, or else text."""
    wrapper: str = ""
    """module:function that wraps a Gymnasium environment; the module may be in this folder."""
    scale: str | None = None
    """The machine: paper, desktop, laptop (the default) or tiny."""
    frames: int | None = None
    """Emulator frames to train for on Atari, agent steps elsewhere; by default the scale's."""
    seed: int | None = None
    """Seed of everything random in the run; 0 by default."""
    out: Path | None = None
    """The run folder; runs/<env> by default."""
    device: str | None = None
    """cpu, cuda, cuda:1, ...; auto, the default, is the GPU if there is one."""
    runtime: Literal["inline", "cluster"] | None = None
    """inline, the default: one process. cluster: many on Ray (pip install 'agent57[cluster]')."""
    actors: int | None = None
    """On a cluster: processes that play; by default the scale's."""
    lanes_per_actor: int | None = None
    """On a cluster: lanes per actor; by default the scale's lanes, divided among the actors."""
    ray_address: str = ""
    """On a cluster: host:port of the Ray to join; by default one on this machine, or a new one."""
    wandb: bool = False
    """Mirror the metrics to Weights & Biases (pip install 'agent57[wandb]')."""
    watch: bool = False
    """Open a live page about the run in a browser (pip install 'agent57[watch]')."""


def main(args: list[str], console: Console) -> int:
    """Start a run. Return 0 if the run is finished, STOPPED if it was told to stop."""
    known = parse(Train, "train", args, return_unknown_args=True)[0]
    with waiting(console, f"preparing {known.config or known.env or DEFAULT_ENV}"):
        config, out = configured(args)
        from agent57.envs.make import announcements

        texts = announcements(known.env or config.env.name, config.env)
    for text in texts:
        say(console, text)
    with (
        mirrored(out, config) if known.wandb else nullcontext(),
        watched(out) if known.watch else nullcontext(),
    ):
        from agent57.runtime.run import STOPPED, start

        is_finished = start(config, out, console)
    return 0 if is_finished else STOPPED


def mirrored(path: Path, config: Config) -> AbstractContextManager[object]:
    """Send a run's metrics to Weights & Biases while it trains."""
    from agent57.storage.wandb_mirror import WandbMirror

    return WandbMirror(path, config)


def watched(path: Path) -> AbstractContextManager[object]:
    """Serve a live page about a run while it trains, from another process."""
    from agent57.commands.watch import PageProcess

    return PageProcess(path)


def configured(args: list[str]) -> tuple[Config, Path]:
    """Return the configuration and the run folder that the arguments ask for."""
    known, rest = parse(Train, "train", args, return_unknown_args=True)
    config = starting_point(known, rest)
    named = {"seed": known.seed, "device": known.device, "frames": known.frames}
    given = {name: value for name, value in named.items() if value is not None}
    runtime = known.runtime or config.run.runtime
    # `runtime` is set last: divisibility checks need the final values.
    config = replace(config, run=replace(config.run, runtime="inline", **given))
    check_spread(known, runtime, rest)
    if runtime == "cluster":
        config = on_cluster(config, known, rest)
    else:
        config = apply_overrides(config, rest)
    return config, known.out or Path("runs") / config.env.name.replace("/", "-")


def starting_point(known: Train, args: list[str]) -> Config:
    """Return the settings in --config, or the defaults of an agent on a task at a scale."""
    named = {
        "--agent": known.agent,
        "--env": known.env,
        "--scale": known.scale,
        "--env-kwargs": known.env_kwargs or None,
        "--wrapper": known.wrapper or None,
    }
    if known.config is None:
        require(not known.trust, "--trust is for --config: an environment you name is trusted")
        return _defaults(known, args)
    for name, value in named.items():
        require(value is None, f"{name} is settled by --config {known.config}: leave it out")
    config = read_config_file(known.config)
    if known.trust:
        vouch(config.env)
    return config


def _defaults(known: Train, args: list[str]) -> Config:
    """Return the defaults for the task. They depend on all options that affect its observations."""
    from agent57.defaults import default_config

    agent, scale = known.agent or "agent57", known.scale or "laptop"
    env = EnvConfig(
        name=known.env or DEFAULT_ENV, kwargs=keywords(known.env_kwargs), wrapper=known.wrapper
    )
    vouch(env)  # the user typed these names
    about_env = [arg for arg in _with_values(args) if arg[0].startswith("--env.")]
    words = [word for arg in about_env for word in arg]
    env = apply_overrides(replace(make_config(agent, scale), env=env), words).env
    return default_config(env, agent, scale)


def _with_values(args: list[str]) -> list[list[str]]:
    """Group each option with the words that follow it."""
    found: list[list[str]] = []
    for arg in args:
        if arg.startswith("--") or not found:
            found.append([arg])
        else:
            found[-1].append(arg)
    return found


def keywords(given: tuple[str, ...]) -> str:
    """Write arguments name=value as a JSON object; return "" without arguments."""
    found: dict[str, Any] = {}
    for word in given:
        name, is_pair, value = word.partition("=")
        require(bool(is_pair and name), f"--env-kwargs takes name=value, got {word!r}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return json.dumps(found, sort_keys=True) if found else ""


def check_spread(known: Train, runtime: str, args: list[str]) -> None:
    """Refuse options of a cluster for a run in one process, and counts below one."""
    counts = {"--actors": known.actors, "--lanes-per-actor": known.lanes_per_actor}
    for name, value in {**counts, "--ray-address": known.ray_address or None}.items():
        require(value is None or runtime == "cluster", f"{name} is for --runtime cluster")
    for name, count in counts.items():
        require(count is None or count > 0, f"{name} must be positive, got {count}")
    check_fields(runtime, args)


def check_fields(runtime: str, args: list[str]) -> None:
    """Refuse --cluster.field options of a run that is not on a cluster."""
    for arg in args:
        require(
            runtime == "cluster" or not arg.startswith("--cluster."),
            f"{arg.split('=')[0]} is for --runtime cluster",
        )


def on_cluster(config: Config, known: Train, args: list[str]) -> Config:
    """Apply --group.field value options, then spread the parts over processes.

    `runtime` is set last: divisibility checks need the final values.
    """
    actors = known.actors or config.cluster.actors
    address = known.ray_address or config.cluster.ray_address
    cluster = replace(config.cluster, actors=actors, ray_address=address)
    short = {
        "--actors": (known.actors, "--cluster.actors"),
        "--lanes-per-actor": (known.lanes_per_actor, "--actor.lanes"),
        "--ray-address": (known.ray_address, "--cluster.ray-address"),
    }
    settled = {field: name for name, (value, field) in short.items() if value}
    config = apply_overrides(replace(config, cluster=cluster), args, SETTLED | settled)
    lanes = config.actor.lanes
    if known.lanes_per_actor:
        lanes = known.lanes_per_actor * config.cluster.actors
    run, actor = replace(config.run, runtime="cluster"), replace(config.actor, lanes=lanes)
    return replace(config, run=run, actor=actor)


def apply_overrides(
    config: Config, args: list[str], settled: Mapping[str, str] = SETTLED
) -> Config:
    """Apply options of the form --group.field value; refuse fields in `settled`."""
    if not args:
        return config
    known = {f"--{name}" for name in flatten(config)}
    own = {f"--{field.name.replace('_', '-')}" for field in fields(Train)}
    for arg in args:
        name = arg.split("=")[0]
        decider = settled.get(name.replace("_", "-"))
        if decider is not None:
            raise ConfigError(f"{name} is settled by {decider}: use that")
        if name.startswith("--") and name.replace("-", "_").replace("__", "--", 1) not in known:
            import difflib

            close = difflib.get_close_matches(name, known | own, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"unknown option {name}{hint}")
    return parse(Config, "train", args, default=config, config=(tyro.conf.AvoidSubcommands,))
