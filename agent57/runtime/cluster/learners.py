"""The driver's bookkeeping of the learners: batches go in, priorities and weights come out.

Up to `UPDATES_AHEAD` batches are being drawn, waiting or being learned from, so a learner never
waits for a batch. Several learners take equal shares of each batch. They can only work together, so
if one dies, all of them are restored.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from agent57.config import Config
from agent57.data_parallel import LearnerMissing
from agent57.runtime.cluster.calls import Calls, Process, Ref
from agent57.runtime.cluster.shards import Part, Shards
from agent57.runtime.cluster.totals import MAX_FAILURES, Died, PartLost, Totals
from agent57.runtime.cluster.workers import LearnerWorker, State
from agent57.storage.checkpoint import Checkpoint
from agent57.storage.journal import Journal
from agent57.types import EnvSpec

UPDATES_AHEAD = 3  # limit of batches that are being drawn, waiting, or being learned from


@dataclass(slots=True, eq=False)
class Draw:
    """A batch on its way from the shards to the learners and back."""

    shares: list[list[Part]]  # parts of the batch, by learner
    num_awaited: int = 0  # answers still missing, first from shards, then from learners
    is_void: bool = False  # a shard or a learner died meanwhile


@dataclass(slots=True)
class NewestWeights:
    """The newest weights in the store of objects."""

    ref: Ref
    version: int
    is_taken: bool = False  # whether a player has used them; otherwise newer ones are not needed
    since: float = field(default_factory=time.monotonic)  # time of publication, monotonic


class Learners:
    """All learners. `last_checkpoint` is called when they have to be restored."""

    published: NewestWeights
    _meeting: tempfile.TemporaryDirectory[str]  # folder in which several learners form a group

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        device: str,
        calls: Calls,
        totals: Totals,
        shards: Shards,
        journal: Journal,
        last_checkpoint: Callable[[str], Checkpoint],
        warn: Callable[[str], None],
    ) -> None:
        self._config = config
        self._spec = spec
        self._device = device
        self._calls = calls
        self._totals = totals
        self._shards = shards
        self._journal = journal
        self._last_checkpoint = last_checkpoint
        self._warn = warn
        self._learners: list[Process] = []
        self._draws: list[Draw] = []
        self._is_publishing = False
        self.num_publications = 0  # by this process
        self._num_failures = 0  # in a row

    def start(self, state: State | None) -> None:
        """Start new learners, all from the same state, and publish their weights."""
        gpus = 1 if self._device == "cuda" else 0
        arguments = (self._config, self._spec, self._device)
        self._learners = [
            self._calls.spawn(LearnerWorker, *arguments, gpus=gpus)
            for _ in range(self._config.cluster.learners)
        ]
        self._meeting = tempfile.TemporaryDirectory()
        start = (state, f"{self._meeting.name}/learners")
        self._calls.answers([p.start.remote(*start, r) for r, p in enumerate(self._learners)])
        weights, ref = self._learners[0].weights.options(num_returns=2).remote()
        self._totals.updates = self._calls.answer(ref)
        self.published = NewestWeights(weights, self._totals.version)

    def processes(self) -> list[Process]:
        """Processes of all learners."""
        return self._learners

    @property
    def num_under_way(self) -> int:
        """Number of updates that have been requested and are not finished."""
        return len(self._draws)

    # Updates

    def update(self) -> None:
        """Request one update: draw a batch, then learn from it."""
        draw = Draw([])
        self._draws.append(draw)
        num_windows = self._config.learner.batch_size // len(self._learners)
        done, failed = partial(self._drawn, draw), partial(self._failed, draw)
        for _ in self._learners:
            draw.shares.append(self._shards.draw(num_windows, done, failed))
        draw.num_awaited = sum(len(parts) for parts in draw.shares)

    def _failed(self, draw: Draw) -> None:
        if not draw.is_void:
            draw.is_void = True
            self._draws.remove(draw)

    def _drawn(self, draw: Draw) -> None:
        """Hand a batch to the learners once all its parts have been drawn."""
        draw.num_awaited -= 1
        if draw.num_awaited or draw.is_void:
            return
        draw.num_awaited = len(self._learners)
        for learner, parts in zip(self._learners, draw.shares, strict=True):
            update = learner.update.options(num_returns=1 + len(parts))
            ref, *priorities = update.remote(*(part.arrays for part in parts))
            act = partial(self._updated, draw, learner, parts, priorities)
            self._calls.expect(ref, act, "the learner")

    def _updated(
        self, draw: Draw, learner: Process, parts: list[Part], priorities: list[Ref], ref: Ref
    ) -> None:
        try:
            metrics = self._calls.answer(ref)
        except (Died, LearnerMissing):
            self._restore(learner)
            return
        if draw.is_void:
            return
        for part, new in zip(parts, priorities, strict=True):
            self._shards.reprioritise(part, new)
        draw.num_awaited -= 1
        if not draw.num_awaited:
            self._draws.remove(draw)
            self._totals.updates += 1
            self._num_failures = 0
            self._journal.add(metrics)

    # Weights

    def publish(self) -> None:
        """Publish newer weights, unless the published ones were not used yet or are too recent.

        Each version is sent to every machine with actors, so many machines need fewer versions.
        """
        has_newer = self.published.version < self._totals.version
        is_early = time.monotonic() - self.published.since < self._config.cluster.publish_seconds
        if self._is_publishing or is_early or not has_newer or not self.published.is_taken:
            return
        self._is_publishing = True
        learner = self._learners[0]
        weights, ref = learner.weights.options(num_returns=2).remote()
        act = partial(self._weights_are_there, learner, weights)
        self._calls.expect(ref, act, "the learner")

    def _weights_are_there(self, learner: Process, weights: Ref, ref: Ref) -> None:
        try:
            num_updates = self._calls.answer(ref)
        except Died:
            self._restore(learner)
            return
        if learner is self._learners[0]:
            self._is_publishing = False
            self.num_publications += 1
            self.published = NewestWeights(weights, num_updates + self._totals.lost_updates)

    # Faults and records

    def _restore(self, learner: Process) -> None:
        """Restore all learners from the last checkpoint."""
        if learner not in self._learners:
            return  # already restored
        for process in self._learners:
            self._calls.end(process)
        self._num_failures += 1
        if self._num_failures >= MAX_FAILURES:
            raise PartLost(f"the learner died {MAX_FAILURES} times in a row without an update")
        state = self._last_checkpoint("the learner").state["parts"]["learner"]
        num_lost = self._totals.updates - state["num_updates"]
        self._totals.lost_updates += num_lost
        self._totals.learner_restarts += 1
        for draw in self._draws:
            draw.is_void = True
        self._draws = []
        self._is_publishing = False
        self.start(state)
        self._warn(
            f"the learner died and is back as of the last checkpoint: {num_lost} updates are lost"
        )

    def state_dict(self) -> State:
        """Return the state of one learner, as all are equal; restore dead learners first."""
        for learner in self._learners:
            try:
                self._calls.answer(learner.num_updates.remote(), "the learner")
            except Died:
                self._restore(learner)
                break
        state: State = self._calls.answer(self._learners[0].state_dict.remote())
        return state
