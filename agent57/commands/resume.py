"""The command `agent57 resume`."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from agent57.commands.options import parse, vouch_for
from agent57.commands.train import mirrored
from agent57.storage.folder import read_config
from agent57.terminal.progress import waiting


@dataclass(frozen=True, kw_only=True)
class Resume:
    """Continue a run exactly from its last checkpoint."""

    run: Annotated[Path, tyro.conf.Positional]
    """The run folder."""
    frames: int | None = None
    """Raise the run's length to this number of frames."""
    ray_address: str | None = None
    """The Ray to join: host:port, or '' for this machine. For runs on a cluster."""
    trust: bool = False
    """Run the code of an environment that is not an installed package."""
    wandb: bool = False
    """Mirror the metrics to Weights & Biases (pip install 'agent57[wandb]')."""


def main(args: list[str], console: Console) -> int:
    """Continue a run. Return 0 if the run is finished, STOPPED if it was told to stop."""
    known = parse(Resume, "resume", args)
    with waiting(console, f"loading {known.run}"):
        if known.trust:
            vouch_for(known.run)
        from agent57.runtime.run import STOPPED, resume

    with mirrored(known.run, read_config(known.run)) if known.wandb else nullcontext():
        is_finished = resume(known.run, known.frames, console, known.ray_address)
    return 0 if is_finished else STOPPED
