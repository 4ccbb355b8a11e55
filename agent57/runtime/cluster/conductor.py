"""The same parts as in `inline`, each in its own process on Ray, on one machine or many.

    actor k  --blocks-->  shard k mod S  --batches-->  learner  --weights-->  all actors

The driver calls the parts, waits for answers and decides which part may be called next. Blocks,
batches, priorities and weights go from process to process through Ray's store of objects. The
driver only holds references to them.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from agent57.config import Config
from agent57.envs.make import check_env
from agent57.nets.networks import make_networks
from agent57.replay.block import Block, Layout, make_layout
from agent57.replay.buffer import SamplesPerInsert
from agent57.runtime.cluster.actors import Players
from agent57.runtime.cluster.calls import (
    LEAST_STORE_BYTES,
    Calls,
    check_resources,
    connected,
)
from agent57.runtime.cluster.learners import UPDATES_AHEAD, Learners
from agent57.runtime.cluster.shards import Shards
from agent57.runtime.cluster.totals import UNANSWERED, PartLost, Totals
from agent57.runtime.cluster.workers import State
from agent57.runtime.session import Session
from agent57.storage.checkpoint import Checkpoint, CheckpointStore
from agent57.storage.journal import Journal
from agent57.types import EnvSpec


class Cluster:
    """The parts of a run, in processes on any machine of the cluster."""

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        layout: Layout,
        device: torch.device,
        calls: Calls,
        checkpoints: Path,
        journal: Journal,
        warn: Callable[[str], None],
    ) -> None:
        self._config = config
        self._checkpoints = checkpoints
        self.totals = Totals()
        self.calls = calls
        faults = (self._last_checkpoint, warn)
        self.shards = Shards(config, layout, self.calls, self.totals, *faults)
        self.learners = Learners(
            config, spec, device.type, self.calls, self.totals, self.shards, journal, *faults
        )
        self.players = Players(
            config, spec, layout, self.calls, self.totals, self.shards, self.learners, journal
        )
        self._ratio = SamplesPerInsert(config.replay)
        self._is_started = False

    def start(self) -> None:
        """Begin a new run, unless a checkpoint was loaded."""
        if self._is_started:
            return
        self._is_started = True
        self.shards.start()
        self.learners.start(None)
        for actor in self.players.actors:
            self.players.start_actor(actor)
        self.players.start_evaluator()

    def _last_checkpoint(self, part: str) -> Checkpoint:
        checkpoint = CheckpointStore(self._checkpoints, keep=1).load()
        if checkpoint is None:
            raise PartLost(f"{part} died and there is no checkpoint to bring it back from")
        return checkpoint

    # Who may be called

    def call_all_who_may(self) -> None:
        """Call every part that is not too far ahead of the others."""
        if self.calls.num_late >= len(self.players.actors):
            raise PartLost(
                f"no actor came up within {self.calls.limit_seconds:g} s: no node has a place for "
                f"one, or the environment hangs; raise cluster.answer_seconds if it is only slow"
            )
        while self.players.has_ready_actor and self._may_play():
            self.players.play()
        while self.learners.num_under_way < UPDATES_AHEAD and self._num_owed():
            self.learners.update()
        self.learners.publish()
        self.players.evaluate()

    def _may_play(self) -> bool:
        """Whether one more actor may play without passing the run's end or the learner."""
        config, num_playing = self._config, self.players.num_playing
        steps_per_call = config.actor.pull_period * config.lanes_per_actor
        steps = self.totals.steps + num_playing * steps_per_call
        if steps * self.players.frames_per_step >= config.run.frames:
            return False
        if not self.shards.has_windows:
            return True  # a replay that was lost must be filled again
        # The learner may be behind by the windows of one call of each actor.
        windows_per_call = steps_per_call / config.sequence.replay_period
        slack = config.replay.samples_per_insert * windows_per_call * config.cluster.actors
        num_windows = self.totals.windows + self.shards.windows_on_the_way
        return self._ratio.may_insert(
            num_windows + round(num_playing * windows_per_call),
            self.totals.updates,
            config.learner.batch_size,
            slack_updates=1 + math.ceil(slack / config.learner.batch_size),
        )

    def _num_owed(self) -> int:
        """Return the number of updates that the inserted windows allow and no call makes yet."""
        if not self.shards.has_windows:
            return 0
        num_updates = self.totals.updates + self.learners.num_under_way
        batch = self._config.learner.batch_size
        return self._ratio.updates_owed(self.totals.windows, num_updates, batch)

    @property
    def is_finished(self) -> bool:
        """Whether the run has all its frames, and has made the updates that they allow."""
        has_frames = self.players.num_frames >= self._config.run.frames
        return has_frames and not self._num_owed() and not self.calls.num_under_way

    # What others see

    def counters(self) -> dict[str, int]:
        """Return the frames, steps and updates so far."""
        return {
            "frames": self.players.num_frames,
            "steps": self.totals.steps,
            "updates": self.totals.updates,
        }

    def summary(self) -> dict[str, float | None]:
        """Return the summaries of the parts for a line of metrics."""
        return {**self.players.summary(), **self.shards.summary(), **self.live()}

    def lanes(self) -> dict[str, list[State]]:
        """Describe what the first actor and the evaluator were doing when they last answered."""
        return self.players.lanes()

    def live(self) -> dict[str, float]:
        """Return figures about the present state of the cluster."""
        totals, actors = self.totals, self.players.actors
        ages = [totals.version - actor.version for actor in actors]
        found: dict[str, float] = {
            "actor/weights_age": float(np.mean(ages)),
            "cluster/actors_playing": self.players.num_playing,
            "cluster/actors_held_back": self.players.num_idle,
            "cluster/actors_without_place": self.calls.num_patient,
            "cluster/updates_under_way": self.learners.num_under_way,
            "cluster/adds_under_way": sum(actor.num_adds for actor in actors),
            "cluster/answers": self.calls.num_answers,
            "cluster/publications": self.learners.num_publications,
        }
        found |= {
            f"cluster/{name}": total
            for name, total in asdict(totals).items()
            if name.startswith("lost_") or name.endswith("_restarts")
        }
        num_paying = totals.windows - self._config.replay.min_windows
        if num_paying > 0:
            num_sampled = totals.updates * self._config.learner.batch_size
            found["cluster/samples_per_insert"] = num_sampled / num_paying
        for actor, age in zip(actors, ages, strict=True):
            rate = actor.rate * self.players.frames_per_step
            found[f"cluster/frames_per_second/{actor.index}"] = rate
            found[f"cluster/weights_age/{actor.index}"] = age
        return found

    # Checkpoints

    def state_dict(self) -> State:
        """Wait for all calls; return everything needed to go on, except the replay's blocks."""
        with _saving():
            self.calls.settle()
            return {
                **self.players.state_dict(),
                "replay": self.shards.state_dict(),
                "learner": self.learners.state_dict(),
                "tally": asdict(self.totals),
            }

    def learner_state(self) -> State:
        """Return the state of the learner alone."""
        return self.learners.state_dict()

    @property
    def oldest_block(self) -> int:
        """The lowest id of the replay's blocks at the time of `state_dict`."""
        return self.shards.oldest_id

    def blocks(self, first_id: int) -> list[tuple[int, Block]]:
        """Return the ids and blocks at the time of `state_dict`, from `first_id` on."""
        with _saving():
            return self.shards.blocks(first_id)

    def load_state_dict(
        self, state: State, blocks: Iterable[tuple[int, bytes]], first_block: int
    ) -> int:
        """Go on from `state` and the blocks; return how many running episodes were dropped."""
        self._is_started = True
        for name, total in state["tally"].items():
            setattr(self.totals, name, int(total))
        with _running():
            self.shards.load_state_dict(state["replay"], blocks, first_block)
            self.learners.start(state["learner"])
            return self.players.load_state_dict(state)

    def close(self) -> None:
        """End all processes."""
        parts = (self.players, self.shards, self.learners)
        for process in (process for part in parts for process in part.processes()):
            self.calls.end(process)


@contextmanager
def joined_ray(
    config: Config, address: str, device: torch.device, warn: Callable[[str], None]
) -> Iterator[None]:
    """Join the Ray at `address` or start one, and check that it has room for the run."""
    num_observations = config.learner.batch_size * (config.sequence.window_length + 1)
    batch_bytes = num_observations * check_env(config.env).observation_bytes
    store_bytes = LEAST_STORE_BYTES + 2 * (UPDATES_AHEAD + 1) * batch_bytes
    with connected(config, address, store_bytes, warn):
        warning = check_resources(config, config.cluster.learners * (device.type == "cuda"))
        if warning:
            warn(warning)
        yield


@contextmanager
def build(
    config: Config,
    device: torch.device,
    checkpoints: Path,
    journal: Journal,
    warn: Callable[[str], None],
) -> Iterator[Cluster]:
    """Build the parts of a run on the Ray that was joined, and end them afterwards."""
    spec = check_env(config.env)
    layout = make_layout(spec, make_networks(config, spec))
    calls = Calls(config.cluster.answer_seconds, warn)
    parts = Cluster(config, spec, layout, device, calls, checkpoints, journal, warn)
    try:
        yield parts
    finally:
        parts.close()


def train(parts: Cluster, journal: Journal, session: Session) -> None:
    """Play and learn until the run has all its frames or the session is told to stop."""
    parts.calls.is_stopping = lambda: session.is_stopping
    with _running():
        parts.start()
        while not parts.is_finished and not session.is_stopping:
            parts.call_all_who_may()
            parts.calls.take_in()
            if journal.is_due(parts.players.num_frames):
                journal.write(parts.counters(), parts.summary())
            session.tick(parts)


@contextmanager
def _running() -> Iterator[None]:
    """End the run when a part dies that cannot be restored."""
    try:
        yield
    except UNANSWERED as error:
        raise PartLost(f"a process that the run needs has died: {error}") from error


@contextmanager
def _saving() -> Iterator[None]:
    """Give up this checkpoint if a process dies; the next call to the process restores it."""
    try:
        yield
    except UNANSWERED as error:
        raise InterruptedError(f"a process died while the run was saved: {error}") from error
