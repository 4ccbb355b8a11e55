"""The driver's bookkeeping of the replay shards: adding, drawing, saving.

All blocks of an actor go to one shard, because a window is made of consecutive blocks. A batch is
drawn from the shards in proportion to the weight of their windows. So all shards together draw as
one replay would.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from agent57.config import Config
from agent57.replay.block import Block, Layout
from agent57.replay.buffer import Replay
from agent57.runtime.cluster.calls import Calls, Process, Ref
from agent57.runtime.cluster.totals import MAX_FAILURES, Died, Gone, PartLost, Totals
from agent57.runtime.cluster.workers import Holding, PlayReport, ShardWorker, State
from agent57.seeds import Role, generator
from agent57.storage.checkpoint import Checkpoint

BLOCKS_PER_CALL = 2000  # blocks sent in one call when the replay is saved or loaded


@dataclass(slots=True, eq=False)
class Shard:
    """One shard of the replay."""

    index: int
    process: Process = None
    added: int = 0  # transitions since the run began, without lost ones
    num_failures: int = 0  # in a row
    weight: float = 0.0  # of all its windows
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # of its blocks in files
    first: int = 0  # the shard's own id of the first block of `ids`

    @property
    def name(self) -> str:
        """The name of the shard in messages."""
        return f"replay shard {self.index}"


@dataclass(frozen=True, slots=True)
class Part:
    """The windows of a batch that one shard drew."""

    shard: Shard
    process: Process  # drew the windows; a successor does not know their keys
    arrays: Ref


class Shards:
    """All shards. `last_checkpoint` is called when a shard has to be restored."""

    def __init__(
        self,
        config: Config,
        layout: Layout,
        calls: Calls,
        totals: Totals,
        last_checkpoint: Callable[[str], Checkpoint],
        warn: Callable[[str], None],
    ) -> None:
        self._config = config
        self._layout = layout
        self._calls = calls
        self._totals = totals
        self._last_checkpoint = last_checkpoint
        self._warn = warn
        self._shards = [Shard(index) for index in range(config.cluster.shards)]
        self._rng = generator(config.run.seed, Role.REPLAY)
        self._next_id = 0  # of blocks in files
        self.windows_on_the_way = 0  # reported by actors, but not yet confirmed by a shard

    def start(self) -> None:
        """Begin with an empty replay."""
        for shard in self._shards:
            self._spawn(shard)
        self._calls.answers([shard.process.start.remote(None) for shard in self._shards])

    def _spawn(self, shard: Shard) -> None:
        shard.process = self._calls.spawn(ShardWorker, self._config, shard.index, self._layout)

    def processes(self) -> list[Process]:
        """Processes of all shards."""
        return [shard.process for shard in self._shards]

    # Adding

    def add(self, actor: int, blocks: Ref, report: PlayReport, done: Callable[[], None]) -> None:
        """Send an actor's blocks to its shard; call `done` when they are stored, or lost."""
        self.windows_on_the_way += report.windows
        self._send(self._shards[actor % len(self._shards)], blocks, report, done)

    def _send(
        self, shard: Shard, blocks: Ref, report: PlayReport, done: Callable[[], None]
    ) -> None:
        ref = shard.process.add.remote(blocks)
        act = partial(self._added, shard, shard.process, blocks, report, done)
        self._calls.expect(ref, act, shard.name)

    def _added(
        self,
        shard: Shard,
        process: Process,
        blocks: Ref,
        report: PlayReport,
        done: Callable[[], None],
        ref: Ref,
    ) -> None:
        try:
            holding: Holding = self._calls.answer(ref)
        except Died:
            self.restore(shard, process)
            self._send(shard, blocks, report, done)  # the blocks are still there
            return
        except Gone:
            self._totals.lost_transitions += report.sent
        else:
            shard.num_failures = 0
            shard.added += holding.added
            shard.weight = holding.weight
            self._totals.windows += holding.windows
        self.windows_on_the_way -= report.windows
        done()

    # Drawing

    @property
    def has_windows(self) -> bool:
        """Whether any shard holds a window."""
        return any(shard.weight for shard in self._shards)

    def draw(
        self, num_windows: int, done: Callable[[], None], failed: Callable[[], None]
    ) -> list[Part]:
        """Draw windows from the shards; `done` or `failed` is called for each part."""
        weight = np.array([shard.weight for shard in self._shards])
        share = weight / weight.sum()
        counts = self._rng.multinomial(num_windows, share)
        parts = []
        for shard in (self._shards[index] for index in np.flatnonzero(counts)):
            sample = shard.process.sample.options(num_returns=2)
            arrays, ref = sample.remote(int(counts[shard.index]), float(share[shard.index]))
            act = partial(self._drawn, shard, shard.process, done, failed)
            self._calls.expect(ref, act, shard.name)
            parts.append(Part(shard, shard.process, arrays))
        return parts

    def _drawn(
        self,
        shard: Shard,
        process: Process,
        done: Callable[[], None],
        failed: Callable[[], None],
        ref: Ref,
    ) -> None:
        try:
            shard.weight = self._calls.answer(ref)
        except Died:
            self.restore(shard, process)
            failed()
        else:
            done()

    def reprioritise(self, part: Part, priorities: Ref) -> None:
        """Send the new priorities of a part's windows to the process that drew them."""
        ref = part.process.reprioritise.remote(priorities)
        self._calls.expect(ref, partial(self._reprioritised, part), part.shard.name)

    def _reprioritised(self, part: Part, ref: Ref) -> None:
        try:
            self._calls.answer(ref)
        except Died:
            self.restore(part.shard, part.process)

    # Faults

    def restore(self, shard: Shard, process: Process) -> None:
        """Restore a dead shard from the last checkpoint; later blocks are lost."""
        if process is not shard.process:
            return  # already restored
        self._calls.end(process)
        name = shard.name
        checkpoint = self._last_checkpoint(name)
        shard.num_failures += 1
        if shard.num_failures >= MAX_FAILURES:
            raise PartLost(
                f"{name} died {MAX_FAILURES} times in a row without having stored a block"
            )
        saved = checkpoint.state["parts"]["replay"]
        num_lost = shard.added - saved["added"][shard.index]
        self._totals.shard_restarts += 1
        self._totals.lost_transitions += num_lost
        self._load([shard], saved, checkpoint.blocks, checkpoint.first_block)
        self._warn(
            f"{name} died and is back as of the last checkpoint: {num_lost} transitions are lost"
        )

    def _bring_back_the_dead(self) -> None:
        """Call every shard, and restore those that died since their last call."""
        for shard in self._shards:
            try:
                self._calls.answer(shard.process.live_ids.remote(), shard.name)
            except Died:
                self.restore(shard, shard.process)

    # Records

    def summary(self) -> dict[str, float | None]:
        """Return the summaries of the shards, pooled as if they were one replay."""
        try:
            shards = self._calls.answers([shard.process.summary.remote() for shard in self._shards])
        except Died:
            return {}  # the next call to the dead shard will restore it
        windows = np.array([found["replay/windows"] for found in shards], float)
        pooled: dict[str, float | None] = {}
        for name in dict.fromkeys(itertools.chain(*shards)):
            values = np.array([found.get(name, 0.0) for found in shards], float)
            is_sum = name.removeprefix("replay/") in ("windows", "transitions", "bytes")
            is_sum = is_sum or name == "replay/effective_windows"
            pooled[name] = float(values.sum() if is_sum else np.average(values, weights=windows))
        return pooled

    def state_dict(self) -> State:
        """Return everything needed to go on, except the blocks."""
        self._bring_back_the_dead()
        self._number_blocks()
        return {
            "shards": self._calls.answers(
                [shard.process.state_dict.remote() for shard in self._shards]
            ),
            "ids": [torch.from_numpy(shard.ids.copy()) for shard in self._shards],
            "added": [shard.added for shard in self._shards],
            "next_id": self._next_id,
            "rng": self._rng.bit_generator.state,
        }

    def _number_blocks(self) -> None:
        """Give new blocks of all shards consecutive ids, under which files store them."""
        live_ids = self._calls.answers([shard.process.live_ids.remote() for shard in self._shards])
        for shard, live in zip(self._shards, live_ids, strict=True):
            num_new = live.stop - (shard.first + len(shard.ids))
            new = np.arange(self._next_id, self._next_id + num_new)
            self._next_id += num_new
            shard.ids = np.concatenate([shard.ids, new])[live.start - shard.first :]
            shard.first = live.start

    @property
    def oldest_id(self) -> int:
        """The lowest id of the blocks held at the time of `state_dict`."""
        return int(
            min((shard.ids[0] for shard in self._shards if len(shard.ids)), default=self._next_id)
        )

    def blocks(self, first_id: int) -> list[tuple[int, Block]]:
        """Return the ids and blocks held at the time of `state_dict`, from `first_id` on."""
        found: list[tuple[int, Block]] = []
        for shard in self._shards:
            start = int(np.searchsorted(shard.ids, first_id))
            for place in range(start, len(shard.ids), BLOCKS_PER_CALL):
                ids = shard.ids[place : place + BLOCKS_PER_CALL].tolist()
                blocks = self._calls.answer(
                    shard.process.blocks.remote(shard.first + place, len(ids))
                )
                found += zip(ids, blocks, strict=True)
        return sorted(found, key=lambda item: item[0])

    def load_state_dict(
        self, state: State, blocks: Iterable[tuple[int, bytes]], first_block: int
    ) -> None:
        """Go on from `state` and the blocks, and drop blocks before `first_block`."""
        self._next_id = state["next_id"]
        self._rng.bit_generator.state = state["rng"]
        self._load(self._shards, state, blocks, first_block)

    def _load(
        self,
        shards: list[Shard],
        state: State,
        blocks: Iterable[tuple[int, bytes]],
        first_block: int,
    ) -> None:
        home: dict[int, Shard] = {}
        saved: dict[int, State] = {}
        for shard in shards:
            ids = state["ids"][shard.index].numpy()
            num_gone = int(np.searchsorted(ids, first_block))
            shard.ids = ids[num_gone:].copy()
            shard.first = state["shards"][shard.index]["store"]["oldest_id"] + num_gone
            shard.added = state["added"][shard.index]
            saved[shard.index] = Replay.without_oldest(state["shards"][shard.index], shard.first)
            shard.weight = float(saved[shard.index]["weight"].sum())
            home |= dict.fromkeys(shard.ids.tolist(), shard)
            self._spawn(shard)
        for chunk in _chunks(((home[i], b) for i, b in blocks if i in home), BLOCKS_PER_CALL):
            for shard in shards:
                mine = [Block.from_bytes(message) for owner, message in chunk if owner is shard]
                self._calls.answer(shard.process.take.remote(mine))
        self._calls.answers([s.process.start.remote(saved[s.index]) for s in shards])


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    remaining = iter(items)
    while chunk := list(itertools.islice(remaining, size)):
        yield chunk
