"""From a configuration or a run folder to a finished run: start, resume, faults, farewell."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from agent57.config import Config, ConfigError, require
from agent57.envs.make import check_env
from agent57.envs.spec import EnvironmentFault
from agent57.learner import NonFiniteUpdate
from agent57.records.checkpoint import CheckpointStore
from agent57.records.folder import RunFolder, check_free, read_config
from agent57.records.journal import Journal
from agent57.records.view import TerminalView, duration
from agent57.runtime import inline
from agent57.runtime.memory import keep_freed_memory
from agent57.runtime.session import Session


class RunFailed(RuntimeError):
    """A run that had to stop; the text says why and what was saved."""


def choose_device(name: str) -> torch.device:
    """The device `--device` names; auto is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"--device {name} cannot be used: {reason}") from None
    return device


def start(config: Config, out: Path, console: Console) -> None:
    """Train a new run."""
    check_free(out)
    device = choose_device(config.run.device)
    check_env(config.env)
    folder = RunFolder.create(out, config)
    _run(config, folder, device, console, is_resumed=False)


def resume(path: Path, frames: int | None, console: Console) -> None:
    """Go on with a run exactly where its last checkpoint left it."""
    config = read_config(path)
    if frames is not None:
        require(
            frames >= config.run.frames,
            f"--frames may only be raised: the run has {config.run.frames}, got {frames}",
        )
        config = replace(config, run=replace(config.run, frames=frames))
    device = choose_device(config.run.device)
    folder = RunFolder(path)
    _run(config, folder, device, console, is_resumed=True)


def _run(
    config: Config, folder: RunFolder, device: torch.device, console: Console, is_resumed: bool
) -> None:
    keep_freed_memory()
    torch.set_num_threads(config.run.threads or os.cpu_count() or 1)
    store = CheckpointStore(folder.path / "checkpoints", config.run.checkpoints_kept)
    journal = Journal(folder, config.run.log_frames)
    parts = inline.build(config, device)
    if is_resumed:
        _restore(store, parts, journal, console)

    def save() -> None:
        state = {
            "counters": parts.counters(),
            "parts": parts.state_dict(),
            "journal": journal.state_dict(),
        }
        try:
            store.save(state, parts.replay.blocks())
        except OSError as error:
            console.print(f"[yellow]checkpoint not written: {error.strerror}; training goes on")

    title = f"{config.run.agent} on {config.env.name}, {config.run.scale} scale, {folder.path}"
    view = TerminalView(config, console, title)

    def show(shown: inline.Parts) -> None:
        view.show(shown.counters(), journal.latest, journal.seconds)

    try:
        with view, Session(show, save, config.run.checkpoint_seconds) as session:
            inline.train(config, parts, journal, session)
            show(parts)
        save()
        store.wait()
    except NonFiniteUpdate as error:
        evidence = folder.path / "nonfinite_batch.pt"
        torch.save({f: getattr(error.batch, f) for f in error.batch.__slots__}, evidence)
        save()
        store.wait()
        raise RunFailed(
            f"{error} at update {parts.learner.num_updates}: the batch is in {evidence}, "
            f"the weights before it in the last checkpoint"
        ) from error
    except EnvironmentFault as error:
        raise RunFailed(f"{error}; the last checkpoint can be resumed") from error
    except OSError as error:
        raise RunFailed(
            f"{error.filename or folder.path}: {error.strerror}; make room or access, "
            f"then `agent57 resume {folder.path}`"
        ) from error
    finally:
        journal.close()
        folder.close()
    _say_goodbye(config, parts, journal, folder.path, console)


def _restore(
    store: CheckpointStore, parts: inline.Parts, journal: Journal, console: Console
) -> None:
    checkpoint = store.load()
    for text in checkpoint.damaged:
        console.print(f"[yellow]{text}; using the checkpoint before it")
    num_dropped = parts.load_state_dict(checkpoint.state["parts"], checkpoint.blocks)
    if num_dropped:
        console.print(
            f"[yellow]{num_dropped} running episodes could not be rebuilt and start afresh: "
            f"the environment is not deterministic"
        )
    journal.load_state_dict(checkpoint.state["journal"])


def _say_goodbye(
    config: Config, parts: inline.Parts, journal: Journal, path: Path, console: Console
) -> None:
    frames = parts.actor.num_frames
    done = frames >= config.run.frames
    verb = "finished" if done else "stopped"
    console.print(f"{verb} after {frames:,} frames and {duration(journal.seconds)} of training")
    command = f"agent57 resume {path}" + (f" --frames {2 * config.run.frames}" if done else "")
    console.print(f"go on with: {command}", highlight=False)


def load_state(path: Path) -> dict[str, Any]:
    """The state of a run's newest whole checkpoint."""
    return CheckpointStore(path / "checkpoints", keep=1).load().state
