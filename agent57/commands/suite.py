"""agent57 suite."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from agent57.commands.options import parse
from agent57.commands.train import SETTLED, apply_overrides, check_fields
from agent57.config import ConfigError
from agent57.presets import make_config

SETTLED_BY_SUITE = SETTLED | {
    "--run.agent": "--agents",
    "--run.seed": "--seeds",
    "--env.name": "the games of the suite",
}


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """Train game x agent x seed, resumable, and score them by the paper's rule.

    Any field of the configuration may follow as --group.field value.
    """

    suite: Annotated[str, tyro.conf.Positional]
    """challenging10, atari57, or NAME,NAME."""
    agents: str = "agent57"
    """Systems of the paper, separated by commas."""
    seeds: int = 3
    """Runs of each agent on each game."""
    out: Path = Path("runs/suite")
    """Where runs and results go; started again with the same folder, it goes on."""
    scale: str = "laptop"
    """paper, laptop or tiny: the machine this is for."""
    frames: int | None = None
    """Frames of each run; by default the scale's."""
    device: str = "auto"
    """Of each run: cpu, cuda, cuda:1, ...; auto is the GPU if there is one."""
    runtime: Literal["inline", "cluster"] = "inline"
    """Of each run: one process, or many on Ray (pip install 'agent57[cluster]')."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""
    reference: str = "agent57"
    """Whose human and random scores to normalise by: agent57 (the paper's) or dqn_zoo."""


def main(args: list[str], console: Console) -> None:
    """Train and score."""
    known, rest = parse(SuiteOptions, "suite", args, return_unknown_args=True)
    if rest and not rest[0].startswith("-"):
        raise ConfigError(f"separate games by commas, without spaces: {known.suite},{rest[0]}")
    agents = tuple(name.strip() for name in known.agents.split(",") if name.strip())
    if not agents:
        raise ConfigError("--agents must name at least one of `agent57 presets`")
    check_fields(known.runtime, rest)
    configs = [
        apply_overrides(make_config(agent, known.scale), rest, SETTLED_BY_SUITE) for agent in agents
    ]

    from agent57.envs.make import check_options
    from agent57.experiments.suite_runs import Suite, run_suite, suite_names
    from agent57.scores.published import check_reference

    suite = Suite(
        name=known.suite,
        games=suite_names(known.suite),
        agents=agents,
        num_seeds=known.seeds,
        scale=known.scale,
        frames=known.frames,
        device=known.device,
        runtime=known.runtime,
        overrides=tuple(rest),
    )
    for game in suite.games:
        check_options(replace(configs[0].env, name=game))
    run_suite(suite, known.out, known.jobs, check_reference(known.reference), console)
