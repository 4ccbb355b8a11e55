"""From a configuration or a run folder to a finished run: start, resume, faults, farewell."""

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from agent57.config import Config, ConfigError, require
from agent57.envs.make import check_env
from agent57.envs.spec import EnvironmentFault
from agent57.learner import NonFiniteUpdate, check_precision
from agent57.records.checkpoint import newest_state
from agent57.records.folder import (
    CHECKPOINTS,
    RunFolder,
    check_free,
    read_config,
    write_atomic,
)
from agent57.records.journal import Journal
from agent57.records.view import TerminalView, duration
from agent57.runtime import inline
from agent57.runtime.memory import keep_freed_memory
from agent57.runtime.saving import Saver
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
    check_precision(config, device)
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

    def warn(text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone must not end a run
            console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)

    journal = Journal(folder, config.run.log_frames)
    try:
        parts = inline.build(config, device)
        saver = Saver(config, folder, parts, journal, warn)
        with _faults_explained(folder.path, parts, saver):
            if is_resumed:
                saver.restore()
                if config != read_config(folder.path):
                    folder.write_config(config)  # with its frames raised
            _train(config, folder, parts, journal, saver, console)
    finally:
        journal.close()
        folder.close()
    _say_goodbye(config, parts, journal, folder.path, console)


def _train(
    config: Config,
    folder: RunFolder,
    parts: inline.Parts,
    journal: Journal,
    saver: Saver,
    console: Console,
) -> None:
    title = f"{config.run.agent} on {config.env.name}, {config.run.scale} scale, {folder.path}"
    view = TerminalView(config, console, title)

    def show(shown: inline.Parts) -> None:
        saver.report()
        with contextlib.suppress(OSError):  # of the terminal, not of the run
            view.show(shown.counters(), journal.latest, journal.seconds)

    is_new = not saver.has_checkpoint
    with view, Session(show, saver.save, config.run.checkpoint_seconds, is_new) as session:
        inline.train(config, parts, journal, session)
        saver.save_last()  # before the last look: a terminal may be gone
        show(parts)


@contextlib.contextmanager
def _faults_explained(path: Path, parts: inline.Parts, saver: Saver) -> Iterator[None]:
    """Turn what can go wrong in a run into one line that says what was saved."""

    def what_is_left() -> str:
        saver.wait()
        if saver.has_checkpoint:
            return f"go on from the last checkpoint with `agent57 resume {path}`"
        return "no checkpoint had been written yet"

    try:
        yield
    except NonFiniteUpdate as error:
        file = path / "nonfinite_update.pt"
        found = _write_evidence(file, error, parts)
        raise RunFailed(
            f"{error} at update {parts.learner.num_updates}: {found}; {what_is_left()}"
        ) from error
    except FloatingPointError as error:
        raise RunFailed(f"{error}; {what_is_left()}") from error
    except EnvironmentFault as error:
        raise RunFailed(f"{error}; {what_is_left()}") from error
    except OSError as error:
        raise RunFailed(
            f"{error.filename or path}: {error.strerror or error}; make room or give access, then "
            f"{what_is_left()}"
        ) from error


def _write_evidence(file: Path, error: NonFiniteUpdate, parts: inline.Parts) -> str:
    """Save the batch that broke an update, with the learner as it was before; where it is."""
    batch = {name: getattr(error.batch, name) for name in error.batch.__slots__}
    buffer = io.BytesIO()
    torch.save({"batch": batch, "learner": parts.learner.state_dict()}, buffer)
    try:
        write_atomic(file, buffer.getvalue())
    except OSError as disk:
        return f"the batch could not be saved ({disk.strerror})"
    return f"the batch and the learner before it are in {file}"


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
    """The state of a run's newest whole checkpoint, whether it is being trained or not."""
    return newest_state(path / CHECKPOINTS)
