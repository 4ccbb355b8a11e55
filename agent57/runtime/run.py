"""Starts and resumes runs, explains faults, and says at the end how to go on."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from agent57.allocator import enough_memory, first_line, lacks_memory
from agent57.compilation import check_compiler
from agent57.config import Config, ConfigError, require
from agent57.envs.gymnasium import needs_trust
from agent57.envs.make import check_env, check_options
from agent57.envs.spec import EnvironmentFault
from agent57.learner import NonFiniteUpdate
from agent57.own_parts import check_parts, with_own_family
from agent57.planning.forecast import expectation
from agent57.precision import settle_precision
from agent57.runtime import inline
from agent57.runtime.cluster.ray_address import prepare
from agent57.runtime.cluster.totals import PartLost
from agent57.runtime.parts import build
from agent57.runtime.saving import AnyParts, Saver
from agent57.runtime.session import Hooks, Session
from agent57.runtime.watchdog import Watchdog, end_process
from agent57.storage.files import RunFolderLost, write_atomic
from agent57.storage.folder import CHECKPOINTS, RunFolder, check_free, read_config
from agent57.storage.journal import Journal
from agent57.terminal.live import TerminalView, duration
from agent57.terminal.progress import say, waiting
from agent57.threads import use_threads
from agent57.video.lane_files import LaneWriter

STOPPED = 3  # exit code of a training that was told to stop, saved itself and can be resumed


class RunFailed(RuntimeError):
    """A run had to stop; the message says why, and what was saved."""


def choose_device(name: str) -> torch.device:
    """Return the device that `--device` names; auto is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()  # "meta" has no data
    except (RuntimeError, AssertionError):  # torch's own message fills a page
        found = ["auto", "cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise ConfigError(
            f"--device {name} cannot be used here: choose one of {', '.join(found)}"
        ) from None
    return device


def start(config: Config, out: Path, console: Console, hooks: Hooks | None = None) -> bool:
    """Train a new run; return True if it was finished, False if it was stopped before."""
    check_free(out)
    device = choose_device(config.run.device)
    config = settle_precision(config, device)
    check_compiler(config.learner.compile)
    check_env(config.env)  # may import a module that registers parts
    check_options(config.env)
    config = with_own_family(config)
    check_parts(config)
    with _on_ray(config, device, console):  # first: if Ray has no room, no folder is made
        if not console.quiet:
            _announce(config, out, device, console)
        folder = RunFolder.create(out, config)
        return _run(config, folder, device, console, hooks or Hooks(), is_resumed=False)


def _announce(config: Config, out: Path, device: torch.device, console: Console) -> None:
    """Print what will be trained, and how long it should take on this machine's cores."""
    run = config.run
    length = f"{run.frames:,} frames, seed {run.seed}, in {out}"
    task = f"training {run.agent} on {config.env.name} at {run.scale} scale: {length}"
    say(console, task)
    if device.type == "cpu":
        with waiting(console, "measuring this machine"), enough_memory():
            expected = expectation(config)
        say(console, expected)


def resume(
    path: Path,
    frames: int | None,
    console: Console,
    ray_address: str | None = None,
    hooks: Hooks | None = None,
) -> bool:
    """Go on exactly from a run's last checkpoint; return whether the run was finished."""
    config = read_config(path)
    if ray_address is not None:
        require(
            config.run.runtime == "cluster",
            "--ray-address is for runs on a cluster: this one was trained in one process",
        )
        config = replace(config, cluster=replace(config.cluster, ray_address=ray_address))
    elif config.cluster.ray_address:
        address = config.cluster.ray_address
        raise ConfigError(
            f"{path} was trained on the Ray at {address}: resume it there with "
            f"--ray-address {address}, or on this machine with --ray-address ''"
        )
    if frames is not None:
        require(
            frames >= config.run.frames,
            f"--frames may only be raised: the run has {config.run.frames}, got {frames}",
        )
        config = replace(config, run=replace(config.run, frames=frames))
    device = choose_device(config.run.device)
    folder = RunFolder(path)
    with _on_ray(config, device, console):
        return _run(config, folder, device, console, hooks or Hooks(), is_resumed=True)


@contextlib.contextmanager
def _on_ray(config: Config, device: torch.device, console: Console) -> Iterator[None]:
    """Join the Ray that a run on a cluster needs. A run in one process needs no Ray."""
    if config.run.runtime == "inline":
        yield
        return
    address = prepare(config)
    from agent57.runtime.cluster import conductor

    with conductor.joined_ray(config, address, device, partial(_warn, console)):
        yield


def _warn(console: Console, text: str) -> None:
    if console.quiet:  # a program that asked for no output must still learn of this
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return
    with contextlib.suppress(OSError):  # a terminal that is gone must not end a run
        say(console, text, style="yellow")


def _run(
    config: Config,
    folder: RunFolder,
    device: torch.device,
    console: Console,
    hooks: Hooks,
    is_resumed: bool,
) -> bool:
    use_threads(config.run.threads)
    warn = partial(_warn, console)
    log_frames = min(config.run.log_frames, config.run.frames)
    journal = Journal(folder, log_frames, hooks.metrics, hooks.episode)
    with contextlib.ExitStack() as stack:
        stack.callback(folder.close)
        stack.callback(journal.close)
        parts: AnyParts
        if config.run.runtime == "inline":
            with waiting(console, "building the networks"), enough_memory():
                parts = one_process = build(config, device)
            train = partial(inline.train, config, one_process, journal)
        else:
            from agent57.runtime.cluster import conductor

            where = (device, folder.path / CHECKPOINTS)
            parts = many = stack.enter_context(conductor.build(config, *where, journal, warn))
            train = partial(conductor.train, many, journal)
        saver = Saver(config, folder, parts, journal, warn)
        stack.callback(saver.wait)  # before the folder is free for others
        with _faults_explained(folder.path, parts, saver):
            if is_resumed:
                saver.restore()
                if config != read_config(folder.path):
                    folder.write_config(config)  # with the fields that may be changed
            _train(config, folder, parts, journal, saver, console, hooks, train)
    return _say_goodbye(config, parts.counters()["frames"], journal, folder.path, console)


def _train(
    config: Config,
    folder: RunFolder,
    parts: AnyParts,
    journal: Journal,
    saver: Saver,
    console: Console,
    hooks: Hooks,
    train: Callable[[Session], None],
) -> None:
    title = f"{config.run.agent} on {config.env.name}, {config.run.scale} scale, {folder.path}"
    view = TerminalView(config, console, title)

    lanes = LaneWriter(folder.path)

    def show(shown: AnyParts) -> None:
        saver.look_after()
        lanes.show(shown.lanes)
        with contextlib.suppress(OSError):  # errors of the terminal must not end the run
            view.show(shown.counters(), journal.latest, journal.seconds, shown.live())

    def abandon(reason: str) -> None:
        _warn(
            console, f"{reason} and swallowed the attempt to end it; {_what_is_left(path, saver)}"
        )
        console.show_cursor()
        end_process()

    is_new, path = not saver.has_checkpoint, folder.path
    seconds = config.run.checkpoint_seconds
    watchdog = Watchdog(partial(_warn, console), abandon)
    session = Session(show, saver.save, seconds, is_new, hooks, watchdog)
    with view, watchdog, session:
        view.show(parts.counters(), journal.latest, journal.seconds)  # the first step takes a while
        train(session)
        saver.save_last()  # before the last view: the terminal may be gone
        if parts.counters()["frames"] >= config.run.frames:
            journal.write_last(parts.counters(), parts.summary())
        show(parts)


@contextlib.contextmanager
def _faults_explained(path: Path, parts: AnyParts, saver: Saver) -> Iterator[None]:
    """Turn a run's fault into a `RunFailed` of one line that says what was saved."""
    what_is_left = partial(_what_is_left, path, saver)
    try:
        yield
    except NonFiniteUpdate as error:
        file = path / "nonfinite_update.pt"
        found = _write_evidence(file, error, parts)
        raise RunFailed(
            f"{error} at update {parts.counters()['updates']}: {found}; {what_is_left()}"
        ) from error
    except FloatingPointError as error:
        raise RunFailed(f"{error}; {what_is_left()}") from error
    except (EnvironmentFault, PartLost, RunFolderLost) as error:
        raise RunFailed(f"{error}; {what_is_left()}") from error
    except InterruptedError as error:
        raise RunFailed(f"no last checkpoint: {error}; {what_is_left()}") from error
    except (MemoryError, RuntimeError) as error:
        if not lacks_memory(error):
            raise
        raise RunFailed(f"not enough memory: {first_line(error)}; {what_is_left()}") from error
    except OSError as error:
        raise RunFailed(
            f"{error.filename or path}: {error.strerror or error}; make room or give access, then "
            f"{what_is_left()}"
        ) from error


def _what_is_left(path: Path, saver: Saver) -> str:
    saver.wait()
    if saver.has_checkpoint:
        return f"go on from the last checkpoint with `agent57 resume {path}`"
    return "there is no checkpoint to go on from"


def _write_evidence(file: Path, error: NonFiniteUpdate, parts: AnyParts) -> str:
    """Save the batch of a failed update and the learner before it; say where they are."""
    batch = {f.name: getattr(error.batch, f.name) for f in fields(error.batch)}
    buffer = io.BytesIO()
    torch.save({"batch": batch, "learner": parts.learner_state()}, buffer)
    try:
        write_atomic(file, buffer.getvalue())
    except OSError as disk:
        return f"the batch could not be saved ({disk.strerror})"
    return f"the batch and the learner before it are in {file}"


def _say_goodbye(
    config: Config, frames: int, journal: Journal, path: Path, console: Console
) -> bool:
    """Print how far the run came and how to go on; return whether it is finished."""
    done = frames >= config.run.frames
    verb = "finished" if done else "stopped"
    say(console, f"{verb} after {frames:,} frames and {duration(journal.seconds)} of training")
    command = f"agent57 resume {path}" + (" --trust" if needs_trust(config.env) else "")
    command += f" --frames {2 * config.run.frames}" if done else ""
    say(console, f"go on with: {command}")
    return done
