"""The driver's bookkeeping of the actors and of the evaluator.

A process that dies is replaced. Its successor begins new episodes, with the bandits and counters
from the dead process's last answer.
"""

import itertools
import time
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from agent57.config import Config
from agent57.replay.block import Layout
from agent57.runtime.cluster.calls import Calls, Process, Ref
from agent57.runtime.cluster.learners import Learners
from agent57.runtime.cluster.shards import Shards
from agent57.runtime.cluster.totals import MAX_FAILURES, UNANSWERED, PartLost, Totals
from agent57.runtime.cluster.workers import (
    ActorWorker,
    EvaluatorWorker,
    PlayReport,
    State,
    packed,
    unpacked,
)
from agent57.storage.journal import Journal
from agent57.types import EnvSpec

ACTOR_PATIENCE = 60.0  # seconds without any answer before a resumed run starts with fewer actors
ADDS_AHEAD = 2  # unconfirmed adds of one actor before it must wait for its shard


@dataclass(slots=True, eq=False)
class PlayerProcess:
    """An actor or the evaluator."""

    index: int
    process: Process = None
    whole: State | None = None  # whole state to go on from, until the process has started
    lasting: bytes | None = None  # packed state from which a successor would take over
    summary: dict[str, float | None] = field(default_factory=dict)
    waiting: int = 0  # steps that are counted but in no block yet
    version: int = 0  # of its weights
    num_adds: int = 0  # calls under way that add its blocks to a shard
    num_failures: int = 0  # in a row
    told: float = 0.0  # time of its last answer, on the monotonic clock
    rate: float = 0.0  # agent steps per second
    lanes: list[State] = field(default_factory=list)  # descriptions of a few lanes for viewers

    def tell(self, report: PlayReport) -> None:
        """Note an answer of the process."""
        now = time.monotonic()
        self.rate = report.steps / max(now - self.told, 1e-9)
        self.told = now
        self.lasting, self.summary = report.lasting, report.summary
        self.waiting, self.version = report.waiting, report.version
        self.lanes = report.lanes
        self.num_failures = 0

    def fail(self, name: str) -> None:
        """Note that its process died."""
        self.num_failures += 1
        if self.num_failures >= MAX_FAILURES:
            raise PartLost(f"{name} died {MAX_FAILURES} times in a row without having played")


class Players:
    """All actors, and the evaluator."""

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        layout: Layout,
        calls: Calls,
        totals: Totals,
        shards: Shards,
        learners: Learners,
        journal: Journal,
    ) -> None:
        self._config = config
        self.frames_per_step = spec.frames_per_step
        self._layout = layout
        self._calls = calls
        self._totals = totals
        self._shards = shards
        self._learners = learners
        self._journal = journal
        self.actors = [PlayerProcess(index) for index in range(config.cluster.actors)]
        self._idle: deque[PlayerProcess] = deque()
        self._evaluator = PlayerProcess(0)
        self._is_evaluating = False
        self.num_playing = 0
        self._num_dropped = 0

    @property
    def num_frames(self) -> int:
        """Emulator frames played by all lanes."""
        return self._totals.steps * self.frames_per_step

    @property
    def num_idle(self) -> int:
        """Number of actors that wait for a call."""
        return len(self._idle)

    def processes(self) -> list[Process]:
        """Processes of the actors and of the evaluator."""
        return [player.process for player in (*self.actors, self._evaluator)]

    # Actors

    def start_actor(self, actor: PlayerProcess, state: State | None = None) -> None:
        """Start a process for an actor; the actor is idle once the process has answered."""
        cluster = self._config.cluster
        actor.process = self._calls.spawn(
            ActorWorker,
            *(self._config, actor.index, self._layout),
            cpus=cluster.actor_cpus,
            gpus=cluster.actor_gpus,
            anywhere=True,
        )
        ref = actor.process.start.remote(state, actor.lasting)
        act = partial(self._actor_started, actor, actor.process)
        self._calls.expect(ref, act, self._name(actor), is_patient=True)

    def _actor_started(self, actor: PlayerProcess, process: Process, ref: Ref) -> None:
        try:
            self._num_dropped += self._calls.answer(ref)
        except UNANSWERED:
            self._replace_actor(actor, process)
        else:
            actor.told = time.monotonic()
            actor.whole = None
            self._idle.append(actor)

    def _replace_actor(self, actor: PlayerProcess, process: Process) -> None:
        if process is not actor.process:
            return  # already replaced
        self._calls.end(process)  # it may be alive but unreachable
        actor.fail(self._name(actor))
        self._totals.actor_restarts += 1
        self._totals.lost_transitions += actor.waiting
        actor.waiting = 0
        self.start_actor(actor)

    @property
    def has_ready_actor(self) -> bool:
        """Whether an actor is idle and not too many of its blocks wait for their shard."""
        return any(actor.num_adds < ADDS_AHEAD for actor in self._idle)

    def play(self) -> None:
        """Let the ready actor play that has been idle for longest."""
        actor = next(actor for actor in self._idle if actor.num_adds < ADDS_AHEAD)
        self._idle.remove(actor)
        self.num_playing += 1
        published = self._learners.published
        published.is_taken = True
        play = actor.process.play.options(num_returns=2)
        blocks, ref = play.remote(published.ref, published.version)
        act = partial(self._played, actor, actor.process, blocks)
        self._calls.expect(ref, act, self._name(actor))

    def _played(self, actor: PlayerProcess, process: Process, blocks: Ref, ref: Ref) -> None:
        self.num_playing -= 1
        try:
            report: PlayReport = self._calls.answer(ref)
        except UNANSWERED:
            self._replace_actor(actor, process)
            return
        actor.tell(report)
        self._idle.append(actor)
        self._totals.steps += report.steps
        self._journal.add(report.scalars)
        for episode in report.episodes:
            self._journal.add_episode(replace(episode, frames=self.num_frames))
        if report.sent:
            actor.num_adds += 1
            self._shards.add(actor.index, blocks, report, partial(_blocks_are_there, actor))

    # The evaluator

    def start_evaluator(self, state: State | None = None) -> None:
        """Start a process for the evaluator."""
        evaluator = self._evaluator
        evaluator.process = self._calls.spawn(EvaluatorWorker, self._config)
        published = self._learners.published
        weights = (published.ref, published.version)
        ref = evaluator.process.start.remote(state, evaluator.lasting, *weights)
        self._is_evaluating = True
        act = partial(self._evaluator_started, evaluator.process)
        self._calls.expect(ref, act, self._name(evaluator))

    def _evaluator_started(self, process: Process, ref: Ref) -> None:
        try:
            self._num_dropped += self._calls.answer(ref)
        except UNANSWERED:
            self._replace_evaluator(process)
        else:
            self._is_evaluating = False

    def _replace_evaluator(self, process: Process) -> None:
        if process is not self._evaluator.process:
            return  # already replaced
        self._calls.end(process)
        self._evaluator.fail(self._name(self._evaluator))
        if self._calls.is_stopping():
            return  # the run ends, so the evaluator is not needed
        self._totals.evaluator_restarts += 1
        self.start_evaluator()

    def evaluate(self) -> None:
        """Let the evaluator play, unless its lanes have more steps than the actors' lanes."""
        lane_steps = self._totals.steps / self._config.actor.lanes
        if not self._is_evaluating and self._totals.evaluator_steps <= lane_steps:
            self._evaluate()

    def _evaluate(self) -> None:
        self._is_evaluating = True
        process, published = self._evaluator.process, self._learners.published
        ref = process.play.remote(published.ref, published.version, self.num_frames)
        self._calls.expect(ref, partial(self._evaluated, process), self._name(self._evaluator))

    def _evaluated(self, process: Process, ref: Ref) -> None:
        try:
            report: PlayReport = self._calls.answer(ref)
        except UNANSWERED:
            self._replace_evaluator(process)
            return
        self._is_evaluating = False
        self._evaluator.tell(report)
        self._totals.evaluator_steps += report.steps // self._config.evaluator.lanes
        for episode in report.episodes:
            self._journal.add_episode(episode)

    # Records

    def lanes(self) -> dict[str, list[State]]:
        """Describe what a few lanes were doing at the end of their latest call."""
        return {"evaluator": self._evaluator.lanes, "actor": self.actors[0].lanes}

    def summary(self) -> dict[str, float | None]:
        """Return the latest summaries of the actors and of the evaluator."""
        return {
            **self._evaluator.summary,
            **pooled_summaries([actor.summary for actor in self.actors]),
        }

    def state_dict(self) -> State:
        """Return everything needed to go on in mid-episode, from all players that have started.

        Players that do not answer are replaced, and their episodes are left out.
        """
        wholes = self._wholes([*self._idle, self._evaluator])
        # Readers of a checkpoint need the state of an evaluator that has played.
        while wholes[self._evaluator] is None and self._evaluator.lasting is None:
            self._evaluate()
            self._calls.settle()
            wholes |= self._wholes([self._evaluator])
        return {
            "actors": [
                {
                    "whole": wholes.get(actor, actor.whole),
                    "lasting": _opened(actor.lasting),
                    "waiting": actor.waiting,
                }
                for actor in self.actors
            ],
            "evaluator": wholes[self._evaluator],
            "evaluator_lasting": _opened(self._evaluator.lasting),
        }

    def _wholes(self, players: list[PlayerProcess]) -> dict[PlayerProcess, State | None]:
        """Ask players for their whole states in parallel; None if one never played or has died."""
        found: dict[PlayerProcess, State | None] = dict.fromkeys(players)
        for player in players:
            act = partial(self._whole_is_there, player, player.process, found)
            self._calls.expect(player.process.state_dict.remote(), act, self._name(player))
        self._calls.settle()
        return found

    def _whole_is_there(
        self,
        player: PlayerProcess,
        process: Process,
        found: dict[PlayerProcess, State | None],
        ref: Ref,
    ) -> None:
        try:
            found[player] = self._calls.answer(ref)
        except UNANSWERED:
            if player is self._evaluator:
                self._replace_evaluator(process)
            else:
                self._idle.remove(player)
                self._replace_actor(player, process)

    def _name(self, player: PlayerProcess) -> str:
        return "the evaluator" if player is self._evaluator else f"actor {player.index}"

    def load_state_dict(self, state: State) -> int:
        """Go on from `state`; return how many running episodes were dropped."""
        for actor, saved in zip(self.actors, state["actors"], strict=True):
            actor.lasting, actor.waiting = _closed(saved["lasting"]), saved["waiting"]
            actor.whole = saved["whole"]
            if actor.whole is None:
                self._totals.lost_transitions += actor.waiting
                actor.waiting = 0
            self.start_actor(actor, actor.whole)
        self._evaluator.lasting = _closed(state["evaluator_lasting"])
        self.start_evaluator(state["evaluator"])
        self._calls.settle(patience=ACTOR_PATIENCE)
        return self._num_dropped


def pooled_summaries(summaries: list[dict[str, float | None]]) -> dict[str, float | None]:
    """Pool the actors' summaries: sums of plays, returns weighted by plays, means of the rest."""
    found: dict[str, float | None] = {}
    for name in dict.fromkeys(itertools.chain(*summaries)):
        known = [summary for summary in summaries if summary.get(name) is not None]
        values = np.array([summary[name] for summary in known], float)
        if name.startswith("arm_plays/"):
            found[name] = float(values.sum())
        elif known:
            plays = name.replace("arm_return/", "arm_plays/")
            weights = np.array([s[plays] for s in known], float) if plays != name else None
            found[name] = float(np.average(values, weights=weights))
    return found


def _opened(lasting: bytes | None) -> State | None:
    """Unpack a state for a checkpoint, which holds tensors and plain containers."""
    return None if lasting is None else unpacked(lasting)


def _closed(lasting: State | None) -> bytes | None:
    """Pack a checkpoint's state for a process."""
    return None if lasting is None else packed(lasting)


def _blocks_are_there(actor: PlayerProcess) -> None:
    actor.num_adds -= 1
