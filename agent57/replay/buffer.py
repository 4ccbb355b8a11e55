"""The replay: prioritised windows over blocks. Overlapping windows share stored blocks.

Blocks of different lanes arrive in any order and get consecutive ids. The id of a window's first
block is the window's key. The probability of drawing a window is proportional to its priority to
the power `priority_exponent`. When more than `capacity` transitions are held, the oldest blocks
leave. The window that starts at a block leaves with it; later windows of the same episode stay.

`SamplesPerInsert` is the only throttle between acting and learning.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch

from agent57.config import ReplayConfig, SequenceConfig
from agent57.replay.block import Block, Layout
from agent57.replay.message import check_block
from agent57.replay.store import BlockStore, WindowReader
from agent57.types import Batch

# Smaller priorities are raised to this value, so that well-learned windows can be drawn again.
PRIORITY_FLOOR = 1e-6
_FEW_LEAVES = 4  # for so few leaves a plain loop is faster than array operations


class Replay:
    """Prioritised sequence replay, first in, first out. All methods may be called by any thread."""

    def __init__(
        self,
        config: ReplayConfig,
        sequence: SequenceConfig,
        layout: Layout,
        rng: np.random.Generator,
        *,
        pin_memory: bool = False,
    ) -> None:
        if config.capacity < sequence.window_length:
            raise ValueError(
                f"replay.capacity must hold a window ({sequence.window_length}), "
                f"got {config.capacity}"
            )
        self._layout = layout
        self._period = sequence.replay_period
        self._exponent = config.priority_exponent
        self._rng = rng
        self._lock = threading.Lock()
        self._store = BlockStore(sequence, config.capacity)
        # A leaf holds the weight of the window that starts in the slot of the same index.
        self._tree = SumTree(np.zeros(self._store.num_slots))
        self.num_windows = 0  # that can be drawn
        self.num_windows_inserted = 0  # so far, including windows that have left
        self._reader = WindowReader(sequence, layout, threads=config.threads, pin_memory=pin_memory)
        self._ahead = ThreadPoolExecutor(1, "replay-ahead")

    @property
    def num_transitions(self) -> int:
        """Steps held, each counted once."""
        return self._store.num_transitions

    @property
    def num_bytes(self) -> int:
        """Memory of the stored blocks and of the sum tree."""
        return self._store.num_bytes + self._tree.num_bytes

    @property
    def total_weight(self) -> float:
        """The sum of the weights of all windows: priority to the power `priority_exponent`."""
        return self._tree.total

    @property
    def live_ids(self) -> range:
        """The ids of the blocks held, oldest first."""
        return self._store.live_ids

    def add(self, block: Block, *, allow_gap: bool = False) -> None:
        """Store a block; the window that it completes gets `block.priority`.

        A block must continue its episode. With `allow_gap`, earlier blocks may have been lost.
        """
        weight = float(self._weights(np.array([block.priority]))[0])
        with self._lock:
            before = self._store.live_ids
            completed = self._store.add(block, allow_gap=allow_gap)
            if self._store.num_slots != self._tree.num_leaves:
                self._grow(before)
            num_leaves, weights = self._tree.num_leaves, self._tree.weights
            changes = {i % num_leaves: 0.0 for i in range(before.start, self.live_ids.start)}
            self.num_windows -= sum(bool(weights[leaf]) for leaf in changes)
            if completed is not None:
                changes[completed % num_leaves] = weight
                self.num_windows += 1
                self.num_windows_inserted += 1
            if changes:
                self._tree.set(np.array(list(changes)), np.array(list(changes.values())))

    def sample(self, batch_size: int) -> Batch:
        """Draw windows independently, in proportion to their weights; a window may repeat."""
        return self._draw(batch_size)()

    def batches(self, count: int, batch_size: int) -> Iterator[Batch]:
        """Yield batches; each is decompressed while the caller works with the previous batch.

        A batch is drawn when the previous batch is handed out. So the draw does not depend on any
        thread's speed, and nothing is pending after the last batch.
        """
        if not count:
            return
        pending = self._ahead.submit(self._draw(batch_size))
        for num_left in reversed(range(count)):
            batch = pending.result()
            if num_left:
                pending = self._ahead.submit(self._draw(batch_size))
            yield batch

    def _draw(self, batch_size: int) -> Callable[[], Batch]:
        """Choose the windows of a batch, and return a function that reads them without the lock."""
        with self._lock:
            if not self.num_windows:
                raise RuntimeError("replay holds no window yet: nothing to sample")
            leaves = self._tree.find(self._rng.random(batch_size))
            probability = self._tree.weights[leaves] / self._tree.total
            oldest = self._store.live_ids.start
            keys = oldest + (leaves - oldest) % self._tree.num_leaves
            windows = [self._store.window(key) for key in keys.tolist()]
        return partial(self._reader.read, windows, keys, probability)

    def reprioritise(self, keys: torch.Tensor, priorities: torch.Tensor) -> None:
        """Write new priorities (before the exponent) of the windows named by `Batch.key`.

        Windows that have been evicted meanwhile are skipped.
        """
        names = keys.cpu().numpy()
        weights = self._weights(priorities.detach().double().cpu().numpy())
        if names.shape != weights.shape:
            raise ValueError(f"{names.shape} keys for {weights.shape} priorities")
        with self._lock:
            live = self._store.live_ids
            is_live = names >= live.start
            leaves = names[is_live] % self._tree.num_leaves
            if (names >= live.stop).any() or not self._tree.weights[leaves].all():
                raise ValueError(f"keys that never named a window: {names}")
            self._tree.set(leaves, weights[is_live])

    def summary(self) -> dict[str, float | None]:
        """Return metrics: contents, and the expected age and priority of the next draw.

        The age of a window is the number of transitions since its first block, with each block
        counted by the mean length. The effective number of windows is 1 / sum p^2, which equals the
        number of windows if all have the same priority.
        """
        with self._lock:
            live, num_transitions = self._store.live_ids, self._store.num_transitions
            ids = np.array(live, np.int64)
            weight = self._tree.weights[ids % self._tree.num_leaves]
        found: dict[str, float | None] = {
            "replay/windows": self.num_windows,
            "replay/transitions": num_transitions,
            "replay/bytes": self.num_bytes,
        }
        if not weight.any():
            return found
        probability = weight / weight.sum()
        age = (live.stop - ids) * (num_transitions / len(live))
        found |= {
            "replay/age": float(probability @ age),
            "replay/effective_windows": float(1 / np.square(probability).sum()),
        }
        if self._exponent:
            priority = weight ** (1 / self._exponent)
            found |= {
                "priority/stored": float(priority.sum() / np.count_nonzero(weight)),
                "priority/drawn": float(probability @ priority),
            }
        return found

    def blocks(self, first_id: int = 0) -> list[tuple[int, Block]]:
        """Return the blocks held from `first_id` on with their ids, oldest first."""
        with self._lock:
            live = self._store.live_ids
            ids = range(max(first_id, live.start), live.stop)
            return [(block_id, self._store.block(block_id)) for block_id in ids]

    def state_dict(self) -> dict[str, Any]:
        """Return the state for `load_state_dict`, without the blocks."""
        with self._lock:
            leaves = np.array(self._store.live_ids, np.int64) % self._tree.num_leaves
            return {
                "store": self._store.state_dict(),
                "weight": torch.from_numpy(self._tree.weights[leaves]),
                "num_windows_inserted": self.num_windows_inserted,
                "rng": self._rng.bit_generator.state,
            }

    def load_state_dict(self, state: dict[str, Any], blocks: Iterable[tuple[int, Block]]) -> None:
        """Continue exactly where `state_dict` was taken, given the ids and blocks of that time."""
        with self._lock:
            self._store.load_state_dict(state["store"], map(self._checked, blocks))
            weights = np.zeros(self._store.num_slots)
            live = np.array(self._store.live_ids, np.int64)
            weights[live % len(weights)] = state["weight"].numpy()
            self._tree = SumTree(weights)
            self.num_windows = int(np.count_nonzero(weights))
            self.num_windows_inserted = int(state["num_windows_inserted"])
            self._rng.bit_generator.state = state["rng"]
        self.check_valid()

    def _checked(self, item: tuple[int, Block]) -> tuple[int, Block]:
        check_block(item[1], self._layout, self._period)
        return item

    @staticmethod
    def without_oldest(state: dict[str, Any], first_id: int) -> dict[str, Any]:
        """Return a copy of a saved state without the blocks before `first_id`."""
        store = state["store"]
        num_gone = min(max(0, first_id - store["oldest_id"]), len(state["weight"]))
        store = {
            **store,
            "oldest_id": store["oldest_id"] + num_gone,
            "following": store["following"][num_gone:],
            "has_state": store["has_state"][num_gone:],
        }
        return {**state, "store": store, "weight": state["weight"][num_gone:]}

    def check_valid(self) -> None:
        """Raise AssertionError if the contents contradict each other. Looks at every block."""
        with self._lock:
            weights, live = self._tree.weights, self._store.live_ids
            starts = [i for i in live if weights[i % len(weights)] > 0]
            if not len(starts) == np.count_nonzero(weights) == self.num_windows:
                raise AssertionError("replay is corrupt: num_windows is wrong")
            if not np.isclose(weights.sum(), self._tree.total):
                raise AssertionError("replay is corrupt: the sum tree is wrong")
            self._store.check_valid(starts)

    def _weights(self, priorities: np.ndarray) -> np.ndarray:
        if not (np.isfinite(priorities) & (priorities >= 0)).all():
            raise ValueError(f"priorities must be finite and not negative, got {priorities}")
        return np.maximum(priorities, PRIORITY_FLOOR) ** self._exponent

    def _grow(self, live: range) -> None:
        """Grow the tree to as many leaves as slots, with each weight at its new place."""
        ids = np.array(live, np.int64)
        weights = np.zeros(self._store.num_slots)
        weights[ids % len(weights)] = self._tree.weights[ids % self._tree.num_leaves]
        self._tree = SumTree(weights)


class SumTree:
    """Non-negative float64 weights on leaves, whose number is a power of two.

    Node i has children 2i and 2i + 1, the root is 1, leaf j is node num_leaves + j. Each inner node
    is always recomputed from its children, so no rounding error can build up.
    """

    def __init__(self, weights: np.ndarray) -> None:
        self.num_leaves = len(weights)
        self._depth = self.num_leaves.bit_length() - 1
        if self.num_leaves != 1 << max(self._depth, 0):
            raise ValueError(f"a sum tree needs a power of two of leaves, got {self.num_leaves}")
        self._nodes = np.concatenate([np.zeros(self.num_leaves), weights])
        for level in reversed(range(self._depth)):
            children = self._nodes[2 << level : 4 << level]
            self._nodes[1 << level : 2 << level] = children[0::2] + children[1::2]

    @property
    def num_bytes(self) -> int:
        """Memory of the nodes."""
        return self._nodes.nbytes

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._nodes[1])

    @property
    def weights(self) -> np.ndarray:
        """The weights of all leaves, read-only."""
        view = self._nodes[self.num_leaves :]
        view.flags.writeable = False
        return view

    def set(self, leaves: np.ndarray, weights: np.ndarray) -> None:
        """Write the weights of some leaves; if a leaf occurs twice, its later weight counts."""
        nodes = np.asarray(leaves, np.int64) + self.num_leaves
        self._nodes[nodes] = weights
        if len(nodes) <= _FEW_LEAVES:
            for node in nodes.tolist():
                while node > 1:
                    node >>= 1
                    self._nodes[node] = self._nodes[2 * node] + self._nodes[2 * node + 1]
            return
        for _ in range(self._depth):
            nodes = nodes >> 1
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, fractions: np.ndarray) -> np.ndarray:
        """Find, for each fraction f in [0, 1), the leaf where the running sum passes f * total.

        A leaf of weight 0 is never found.
        """
        if not self.total > 0:
            raise ValueError("a sum tree without weight has nothing to find")
        remaining = np.asarray(fractions, np.float64) * self.total
        nodes = np.ones(len(remaining), np.int64)
        for _ in range(self._depth):
            left = self._nodes[2 * nodes]
            # Rounding may leave a remainder beyond the last weight: never enter an empty subtree.
            goes_right = (remaining >= left) & (self._nodes[2 * nodes + 1] > 0)
            remaining = np.where(goes_right, remaining - left, remaining)
            nodes = 2 * nodes + goes_right
        return nodes - self.num_leaves


class SamplesPerInsert:
    """Keeps the number of sampled windows at `samples_per_insert` times the inserted windows.

    Counting starts at `min_windows`. Windows of the warm-up earn no updates, so learning starts at
    its steady pace and not with a burst. Learning is never more than one batch ahead. Acting is at
    most `slack_updates` ahead, if the caller asks `may_insert`.
    """

    def __init__(self, config: ReplayConfig) -> None:
        self._min_windows = config.min_windows
        self._samples_per_insert = config.samples_per_insert

    def updates_owed(self, num_windows_inserted: int, num_updates: int, batch_size: int) -> int:
        """Return the number of updates that the learner should make now."""
        if num_windows_inserted < self._min_windows:
            return 0
        return max(0, int(self._earned(num_windows_inserted) // batch_size) + 1 - num_updates)

    def may_insert(
        self, num_windows_inserted: int, num_updates: int, batch_size: int, slack_updates: int
    ) -> bool:
        """Whether acting may go on while the learner is at most `slack_updates` behind."""
        if num_windows_inserted < self._min_windows:
            return True
        owed = self._earned(num_windows_inserted) - num_updates * batch_size
        return owed <= slack_updates * batch_size

    def _earned(self, num_windows_inserted: int) -> float:
        return self._samples_per_insert * (num_windows_inserted - self._min_windows)
