"""Saves a run to disk and restores it: contents of checkpoints, and messages about faults."""

import contextlib
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from agent57.allocator import give_back_freed_memory
from agent57.config import Config, ConfigError, from_dict, require, to_dict
from agent57.envs.spec import EnvironmentFault
from agent57.presets import difference
from agent57.runtime.cluster.totals import PartLost
from agent57.runtime.parts import Parts
from agent57.storage.checkpoint import Checkpoint, CheckpointStore
from agent57.storage.folder import CHECKPOINTS, RunFolder
from agent57.storage.journal import Journal

if TYPE_CHECKING:
    from agent57.runtime.cluster.conductor import Cluster  # needs Ray

AnyParts: TypeAlias = "Parts | Cluster"  # parts in one process, or each in its own

# The only fields that may differ from the checkpoint's configuration.
FREE_FIELDS = {
    "run.frames", "run.device", "run.threads", "run.log_frames", "run.checkpoint_seconds",
    "run.checkpoints_kept", "cluster.ray_address", "cluster.dashboard", "cluster.actor_cpus",
    "cluster.actor_gpus", "cluster.actor_threads", "cluster.learners", "env.step_seconds",
    "cluster.answer_seconds",
}  # fmt: skip


def check_same_config(config: Config, state: dict[str, Any]) -> None:
    """Refuse a configuration other than the checkpoint's own."""
    try:
        saved = from_dict(state["config"])
    except ConfigError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__} {error}"
        raise ConfigError(f"the checkpoint's configuration cannot be read: {reason}") from None
    for name, (now, then) in difference(config, saved).items():
        require(
            name in FREE_FIELDS,
            f"config.json says {name} = {now}, but the run was trained with {then}: "
            f"set it back, or train anew in another folder",
        )


class Saver:
    """Writes and restores the checkpoints of one run. `warn` prints a line for the user."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        parts: AnyParts,
        journal: Journal,
        warn: Callable[[str], None],
    ) -> None:
        self._config = config
        self._folder = folder
        self._parts = parts
        self._journal = journal
        self._warn = warn
        self._store = CheckpointStore(
            folder.path / CHECKPOINTS, config.run.checkpoints_kept, self._before_commit
        )

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint on disk to go on from."""
        return self._store.newest is not None

    def _before_commit(self) -> None:
        """Do the slow work for each checkpoint in the thread that writes the checkpoint."""
        self._folder.sync()
        give_back_freed_memory()

    def look_after(self) -> None:
        """Warn if a write has failed meanwhile; raise `RunFolderLost` if the folder is gone."""
        self._folder.check()
        if not self._store.is_writing:
            self._report(self._store.wait())

    def save(self) -> bool:
        """Begin a checkpoint; return False if the previous one is still being written.

        Training goes on if the disk refuses. The first checkpoint of a run is waited for.
        """
        if self._store.is_writing:
            return False
        try:
            self._begin()
            if not self.has_checkpoint:
                self._report(self._store.wait())
        except OSError as error:
            self._report(error)
        return True

    def save_last(self) -> None:
        """Write a checkpoint and wait for it; raise OSError if the disk refuses."""
        self._begin()
        error = self._store.wait()
        if error is not None:
            raise error

    def wait(self) -> None:
        """Wait for a write under way, and warn if it fails. Ctrl-C does not interrupt the wait.

        The caller unlocks the folder next, and no other process may use it during a write.
        """
        while self._store.is_writing:
            with contextlib.suppress(KeyboardInterrupt):
                self._store.join()
        error = self._store.wait()
        if error is not None:
            self._warn(f"checkpoint not written: {error.strerror or error}")
        self._store.forget_lost()

    def _begin(self) -> None:
        self._folder.check()
        self._report(self._store.wait())
        lost = self._store.forget_lost()
        if lost:
            self._warn(
                f"files of checkpoint {', '.join(lost)} were removed from {CHECKPOINTS}: "
                f"the next checkpoint is written in full"
            )
        parts = self._parts.state_dict()  # first: on a cluster it waits for calls under way
        state = {
            "config": to_dict(self._config),
            "counters": self._parts.counters(),
            "parts": parts,
            "journal": self._journal.state_dict(),
        }
        blocks = self._parts.blocks(self._store.next_block)
        self._store.save(state, blocks, self._parts.oldest_block)

    def _report(self, error: OSError | None) -> None:
        if error is not None:
            self._warn(
                f"checkpoint not written: {error.strerror or error}; training goes on, "
                f"the next attempt is in {self._config.run.checkpoint_seconds:g} s"
            )

    def restore(self) -> None:
        """Go on from the newest undamaged checkpoint, or from the beginning if there is none."""
        checkpoint = self._store.load()
        if checkpoint is None:
            self._folder.start_over()
            self._warn("no checkpoint was written yet: starting from the beginning")
            return
        is_whole = checkpoint.first_block == 0
        for text in checkpoint.damaged:
            self._warn(f"{text}: using the checkpoint before it" if is_whole else text)
        check_same_config(self._config, checkpoint.state)
        num_dropped = self._load(checkpoint)
        if not is_whole:
            self._warn(
                f"every checkpoint is damaged: going on from {checkpoint.name} with the rest of "
                f"its replay; the result will differ from that of an undisturbed run"
            )
        if num_dropped:
            self._warn(
                f"{num_dropped} running episodes could not be rebuilt and start afresh: "
                f"the environment is not deterministic"
            )

    def _load(self, checkpoint: Checkpoint) -> int:
        """Load a checkpoint; return how many running episodes were dropped."""
        state = checkpoint.state
        require(
            "journal" in state,
            f"{self._folder.path} holds weights only: they can be loaded and evaluated, "
            f"not trained on",
        )
        try:
            num_dropped = self._parts.load_state_dict(
                state["parts"], checkpoint.blocks, checkpoint.first_block
            )
            damage = self._journal.load_state_dict(state["journal"])
        except (EnvironmentFault, PartLost, torch.OutOfMemoryError):
            raise
        except (
            LookupError, ValueError, TypeError, RuntimeError, AssertionError, AttributeError,
            OverflowError, MemoryError, struct.error,
        ) as error:  # fmt: skip
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"checkpoint {checkpoint.name} was not written by this version of agent57: {reason}"
            ) from error
        for text in damage:
            self._warn(text)
        return num_dropped
