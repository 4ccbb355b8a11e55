"""The command `agent57 evaluate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agent57.commands.options import parse, vouch_for
from agent57.storage.folder import check_json, write_json
from agent57.terminal.progress import say, waiting


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Play episodes with a trained run, and film one."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    episodes: int = 10
    """How many episodes to play."""
    arm: int | None = None
    """Arm j of the family; by default the surest, by mean return less one standard error."""
    epsilon: float | None = None
    """Probability of a random action; by default the evaluator's (0.01 in the paper)."""
    seed: int = 0
    """Seed of the episodes and of random actions."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is the GPU if there is one."""
    trust: bool = False
    """Run the code of an environment that is not an installed package."""
    video: Path | None = None
    """Film the first episode, as .mp4 or .gif."""
    overlay: bool = True
    """Show score, arm, action values and novelty beside the game."""
    json: Path | None = None
    """Write the numbers to this file."""


def main(args: list[str], console: Console) -> None:
    """Play episodes and print the results."""
    known = parse(Evaluate, "evaluate", args)
    with waiting(console, f"loading {known.run}"):
        if known.trust:
            vouch_for(known.run)
        from agent57.terminal.evaluation_view import EvaluationView
        from agent57.trained.evaluation import Trial, evaluate

    trial = Trial(
        episodes=known.episodes,
        arm=known.arm,
        epsilon=known.epsilon,
        seed=known.seed,
        video=known.video,
        overlay=known.overlay,
        device=known.device,
    )
    if known.json is not None:
        check_json(known.json)
    result = evaluate(known.run, trial, EvaluationView(console))
    if known.json is not None:
        write_json(known.json, result)
        say(console, f"numbers: {known.json}")
