import dataclasses
import io
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent57.config import ReplayConfig
from agent57.replay import buffer
from agent57.replay.block import Block
from agent57.replay.buffer import PRIORITY_FLOOR, Replay, SumTree

from .definition import (
    assert_same_batch,
    assert_same_window,
    batch_column,
    window_by_definition,
    window_starts,
)
from .episodes import PAIR, PIXELS, SINGLE, TRIPLE, VECTOR, Lanes, make_assembler, play_episode


def replay_config(**changes: float) -> ReplayConfig:
    return ReplayConfig(**{"capacity": 1000, "min_windows": 1, "threads": 2, **changes})


def make_replay(sequence=PAIR, layout=VECTOR, seed=0, **config) -> Replay:
    return Replay(replay_config(**config), sequence, layout, np.random.default_rng(seed))


def fill(replay, num_windows, layout=VECTOR, priorities=None) -> Lanes:
    """Add episodes of one step, so that each is a window whose key is its number."""
    lanes, assembler = Lanes(1, layout), make_assembler(PAIR, layout)
    for number in range(num_windows):
        (block,), _ = play_episode(lanes, assembler, 1)
        priority = 1.0 if priorities is None else float(priorities[number])
        replay.add(dataclasses.replace(block, priority=priority))
    return lanes


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    expected = counts.sum() * probabilities
    return float(((counts - expected) ** 2 / expected).sum())


def test_frequencies_follow_priorities():
    priorities = np.random.default_rng(0).gamma(0.5, size=50) + 1e-3
    replay = make_replay(priority_exponent=0.9)
    fill(replay, 50, priorities=priorities)
    expected = priorities**0.9 / (priorities**0.9).sum()
    counts = np.zeros(50)
    for _ in range(100):
        batch = replay.sample(200)
        np.add.at(counts, batch.key.numpy(), 1)
        assert np.allclose(batch.probability.numpy(), expected[batch.key.numpy()], rtol=1e-12)
    assert chi_square(counts, expected) < 85.4  # 49 degrees of freedom: one in a thousand


def test_regression_priorities_summed_anew_for_every_sample(monkeypatch):
    # A draw goes from the root to a leaf and reads two nodes on each level. All other nodes are
    # nan here, so a sum over all priorities would be nan.
    trees = []

    class KnownTree(SumTree):
        def __init__(self, weights):
            super().__init__(weights)
            trees.append(self)

    monkeypatch.setattr(buffer, "SumTree", KnownTree)
    priorities = np.random.default_rng(0).gamma(0.5, size=50) + 1e-3
    sound, spoiled = make_replay(), make_replay()
    fill(sound, 50, priorities=priorities)
    fill(spoiled, 50, priorities=priorities)
    tree = trees[-1]
    nodes = tree.weights.base
    assert nodes is not None
    intact = nodes.copy()
    for _ in range(20):
        expected = sound.sample(1)
        key = int(expected.key)
        way = {(tree.num_leaves + key) >> level for level in range(tree.num_leaves.bit_length())}
        read = list(way | {node ^ 1 for node in way})
        nodes[:] = np.nan
        nodes[read] = intact[read]
        batch = spoiled.sample(1)
        assert batch.key == key
        assert batch.probability == expected.probability


def test_draws_are_independent_of_each_other():
    replay = make_replay()
    fill(replay, 4)
    pairs = np.zeros(16)
    for _ in range(2000):
        first, second = replay.sample(2).key.tolist()
        pairs[4 * first + second] += 1
    assert chi_square(pairs, np.full(16, 1 / 16)) < 37.7  # 15 degrees of freedom


def test_exponent_zero_is_uniform():
    replay = make_replay(priority_exponent=0.0)
    fill(replay, 10, priorities=np.arange(10))
    assert np.allclose(replay.sample(30).probability.numpy(), 0.1)


def test_new_priorities_count():
    replay = make_replay(priority_exponent=1.0)
    fill(replay, 4)
    replay.reprioritise(torch.tensor([0, 2, 3]), torch.tensor([3.0, 6.0, 10.0]))
    batch = replay.sample(100)
    expected = np.array([3, 1, 6, 10]) / 20
    assert np.allclose(batch.probability.numpy(), expected[batch.key.numpy()])


def test_a_window_without_priority_may_still_be_drawn():
    replay = make_replay(priority_exponent=1.0)
    fill(replay, 2, priorities=[0.0, 0.0])
    assert set(replay.sample(50).key.tolist()) == {0, 1}
    replay.reprioritise(torch.tensor([0]), torch.tensor([PRIORITY_FLOOR * 3]))
    batch = replay.sample(50)
    assert np.allclose(batch.probability.numpy(), np.where(batch.key == 0, 0.75, 0.25))


@pytest.mark.parametrize("priority", [float("nan"), float("inf"), -1.0])
def test_impossible_priorities_are_refused(priority):
    replay = make_replay()
    fill(replay, 2)
    with pytest.raises(ValueError, match="finite and not negative"):
        replay.reprioritise(torch.tensor([0, 1]), torch.tensor([1.0, priority]))
    with pytest.raises(ValueError, match="finite and not negative"):
        fill(replay, 1, priorities=[priority])
    assert replay.num_windows == 2
    assert np.allclose(replay.sample(10).probability.numpy(), 0.5)


def test_keys_of_evicted_windows_are_passed_over():
    replay = make_replay(capacity=8, priority_exponent=1.0)
    fill(replay, 12)
    assert replay.live_ids == range(4, 12)
    replay.reprioritise(torch.tensor([0, 3, 4]), torch.tensor([9.0, 9.0, 3.0]))
    batch = replay.sample(200)
    assert np.allclose(batch.probability.numpy(), np.where(batch.key == 4, 0.3, 0.1))
    replay.check_valid()


def test_keys_that_never_were_are_refused():
    replay = make_replay()
    fill(replay, 3)
    with pytest.raises(ValueError, match="never named a window"):
        replay.reprioritise(torch.tensor([3]), torch.tensor([1.0]))
    lanes, assembler = Lanes(1, VECTOR), make_assembler(PAIR, VECTOR)
    for block in play_episode(lanes, assembler, 8)[0]:
        replay.add(block)
    with pytest.raises(ValueError, match="never named a window"):
        replay.reprioritise(torch.tensor([4]), torch.tensor([1.0]))  # a second block
    with pytest.raises(ValueError, match="keys for"):
        replay.reprioritise(torch.tensor([0, 1]), torch.tensor([1.0]))


def test_sampling_from_an_empty_replay_is_refused():
    replay = make_replay()
    with pytest.raises(RuntimeError, match="no window yet"):
        replay.sample(1)


def test_capacity_must_hold_a_window():
    with pytest.raises(ValueError, match="must hold a window"):
        make_replay(capacity=7)


@pytest.mark.parametrize("length", [1, 4, 5, 8, 9, 20])
def test_no_window_is_stored_twice_or_left_out(length):
    replay = make_replay()
    lanes, assembler = Lanes(1, VECTOR), make_assembler(PAIR, VECTOR)
    for block in play_episode(lanes, assembler, length)[0]:
        replay.add(block)
    starts = replay.sample(300).start.unique().tolist()
    assert starts == window_starts(lanes.finished[0], PAIR)
    assert replay.num_windows == replay.num_windows_inserted == len(starts)


class History:
    """The expected contents of a replay, computed from whole raw episodes."""

    def __init__(self, sequence, layout, capacity) -> None:
        self._sequence, self._layout, self._capacity = sequence, layout, capacity
        self.blocks = []  # (episode object, block) in order of arrival
        self.priority = {}  # by key

    def add(self, episode, block) -> None:
        self.blocks.append((episode, block))
        if block.completes_window(self._sequence):
            first = max(0, block.index + 1 - self._sequence.blocks_per_window)
            key = next(
                i
                for i, (other, b) in enumerate(self.blocks)
                if other is episode and b.index == first
            )
            if key >= self.oldest:
                self.priority[key] = block.priority
        self.priority = {k: p for k, p in self.priority.items() if k >= self.oldest}

    @property
    def oldest(self) -> int:
        held = 0
        for i in range(len(self.blocks) - 1, -1, -1):
            held += self.blocks[i][1].length
            if held > self._capacity:
                return i + 1
        return 0

    @property
    def num_transitions(self) -> int:
        return sum(block.length for _, block in self.blocks[self.oldest :])

    def window(self, key):
        episode, block = self.blocks[key]
        start = block.index * self._sequence.replay_period
        return window_by_definition(episode, start, self._sequence, self._layout)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    sequence=st.sampled_from([SINGLE, PAIR, TRIPLE]),
    layout=st.sampled_from([PIXELS, VECTOR]),
    num_lanes=st.integers(1, 4),
    capacity=st.integers(12, 200),
    end_probability=st.sampled_from([0.02, 0.1, 0.4]),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_play_by_definition(sequence, layout, num_lanes, capacity, end_probability, seed):
    rng = np.random.default_rng(seed)
    replay = make_replay(sequence, layout, seed, capacity=capacity, priority_exponent=0.7)
    history = History(sequence, layout, capacity)
    lanes = Lanes(num_lanes, layout, seed)
    assembler = make_assembler(sequence, layout, num_lanes)
    num_inserted = 0
    for _ in range(rng.integers(40, 120)):
        episodes = list(lanes.running)
        ends = rng.random(num_lanes) < end_probability
        is_terminated = rng.random(num_lanes) < 0.5
        played = lanes.step(
            terminate=tuple(np.flatnonzero(ends & is_terminated)),
            truncate=tuple(np.flatnonzero(ends & ~is_terminated)),
        )
        for assembled in assembler.add(played).blocks:
            block = dataclasses.replace(assembled, priority=float(rng.exponential()))
            keys_before = set(history.priority)
            replay.add(block)
            history.add(episodes[block.lane], block)
            num_inserted += len(set(history.priority) - keys_before)
            assert replay.num_transitions == history.num_transitions <= capacity
            assert replay.num_windows == len(history.priority)
            assert replay.num_windows_inserted == num_inserted
            assert replay.live_ids == range(history.oldest, len(history.blocks))
        if rng.random() < 0.3 and history.priority:
            check_against(history, replay, rng)
    replay.check_valid()


def check_against(history, replay, rng) -> None:
    batch = replay.sample(5)
    weight = {key: max(p, PRIORITY_FLOOR) ** 0.7 for key, p in history.priority.items()}
    total = sum(weight.values())
    for column, key in enumerate(batch.key.tolist()):
        assert_same_window(batch_column(batch, column), history.window(key))
        assert np.isclose(float(batch.probability[column]), weight[key] / total)
    keys = rng.integers(0, len(history.blocks), 6)
    known = [key for key in keys if key in history.priority or key < history.oldest]
    priorities = rng.exponential(size=len(known))
    replay.reprioritise(
        torch.tensor(known, dtype=torch.int64), torch.tensor(priorities, dtype=torch.float64)
    )
    for key, priority in zip(known, priorities, strict=True):
        if key in history.priority:
            history.priority[int(key)] = priority


def play_into(replay, lanes, assembler, steps, rng) -> None:
    for _ in range(steps):
        ends = tuple(np.flatnonzero(rng.random(lanes.num_lanes) < 0.07))
        for block in assembler.add(lanes.step(terminate=ends)).blocks:
            replay.add(dataclasses.replace(block, priority=float(rng.exponential())))


@pytest.mark.parametrize("as_messages", [True, False])
@pytest.mark.parametrize("capacity", [1000, 150])
def test_continues_exactly_from_its_state(as_messages, capacity):
    lanes, assembler = Lanes(3, PIXELS), make_assembler(TRIPLE, PIXELS, 3)
    replay = make_replay(TRIPLE, PIXELS, capacity=capacity)
    play_into(replay, lanes, assembler, 110, np.random.default_rng(0))
    replay.reprioritise(replay.sample(4).key, torch.rand(4))

    stored = io.BytesIO()
    torch.save(replay.state_dict(), stored)
    stored.seek(0)
    blocks = replay.blocks()
    if as_messages:
        blocks = [(key, Block.from_bytes(block.to_bytes())) for key, block in blocks]
    resumed = make_replay(TRIPLE, PIXELS, seed=99, capacity=capacity)
    resumed.load_state_dict(torch.load(stored, weights_only=True), blocks)
    assert resumed.num_bytes == replay.num_bytes
    assert resumed.num_windows_inserted == replay.num_windows_inserted

    rng = np.random.default_rng(1)
    for _ in range(5):
        one, two = replay.sample(8), resumed.sample(8)
        assert_same_batch(one, two)
        for each in (replay, resumed):
            each.reprioritise(one.key, torch.arange(8.0))
        for _ in range(15):
            played = lanes.step(truncate=tuple(np.flatnonzero(rng.random(3) < 0.07)))
            for block in assembler.add(played).blocks:
                replay.add(block)
                resumed.add(block)
    resumed.check_valid()


def test_states_dropped_since_a_block_was_saved_stay_dropped():
    lanes, assembler = Lanes(1, VECTOR), make_assembler(TRIPLE, VECTOR)
    replay = make_replay(TRIPLE)
    saved = []
    for block in play_episode(lanes, assembler, 20)[0]:
        replay.add(block)
        saved.append((len(saved), block))
    resumed = make_replay(TRIPLE)
    resumed.load_state_dict(replay.state_dict(), saved)
    assert resumed.num_bytes == replay.num_bytes


def test_blocks_can_be_listed_from_an_id_on():
    replay = make_replay(capacity=8)
    fill(replay, 12)
    assert [block_id for block_id, _ in replay.blocks()] == list(range(4, 12))
    assert [block_id for block_id, _ in replay.blocks(first_id=9)] == [9, 10, 11]
    assert [block.episode for _, block in replay.blocks(first_id=9)] == [9, 10, 11]


def test_equal_seeds_give_equal_batches_by_law():
    one, two = make_replay(seed=5), make_replay(seed=5)
    fill(one, 30)
    fill(two, 30)
    assert_same_batch(one.sample(16), two.sample(16))


def test_batches_ahead_are_drawn_in_order_whatever_the_speed_by_law():
    one, two = make_replay(seed=5), make_replay(seed=5)
    fill(one, 30)
    fill(two, 30)
    ahead = list(one.batches(3, 16))
    for batch in ahead:
        assert_same_batch(batch, two.sample(16))
    assert one.state_dict()["rng"] == two.state_dict()["rng"]  # no draws after the last batch
    assert list(one.batches(0, 16)) == []


def test_a_batch_ahead_does_not_see_the_priorities_written_meanwhile():
    replay = make_replay()
    fill(replay, 3)
    drawn = []
    for batch in replay.batches(3, 64):
        replay.reprioritise(torch.arange(3), torch.tensor([1.0, 0.0, 0.0]))
        drawn.append(set(batch.key.tolist()))
    assert drawn == [{0, 1, 2}, {0, 1, 2}, {0}]


def test_threads_may_insert_sample_and_reprioritise_at_once():
    replay = make_replay(PAIR, PIXELS, capacity=120)
    fill(replay, 5, PIXELS)
    failures: list[BaseException] = []
    running = threading.Event()
    running.set()

    def insert(first_lane: int) -> None:
        lanes = Lanes(2, PIXELS, seed=first_lane)
        assembler = make_assembler(PAIR, PIXELS, 2, first_lane=first_lane)
        play_into(replay, lanes, assembler, 400, np.random.default_rng(first_lane))

    def learn() -> None:
        while running.is_set():
            batch = replay.sample(8)
            # Rewards count up by one within a lane's window, so a mixed window would be noticed.
            steps = batch.extrinsic.diff(dim=0)[batch.mask[1:]]
            assert (steps == 2).all()
            replay.reprioritise(batch.key, torch.rand(8))

    def guarded(work, *arguments) -> None:
        try:
            work(*arguments)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    writers = [threading.Thread(target=guarded, args=(insert, lane)) for lane in (10, 20)]
    readers = [threading.Thread(target=guarded, args=(learn,)) for _ in range(2)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    running.clear()
    for thread in readers:
        thread.join()
    assert failures == []
    replay.check_valid()


def test_the_summary_says_what_the_next_draw_brings_by_hand():
    replay = make_replay(priority_exponent=0.5)
    assert replay.summary() == {
        "replay/windows": 0, "replay/transitions": 0, "replay/bytes": replay.num_bytes,
    }  # fmt: skip
    fill(replay, 3, priorities=[1.0, 4.0, 9.0])  # of one step each, drawn as 1 : 2 : 3
    summary = replay.summary()
    assert (summary["replay/windows"], summary["replay/transitions"]) == (3, 3)
    assert summary["replay/age"] == pytest.approx((1 * 3 + 2 * 2 + 3 * 1) / 6)
    assert summary["replay/effective_windows"] == pytest.approx(36 / (1 + 4 + 9))
    assert summary["priority/stored"] == pytest.approx((1 + 4 + 9) / 3)
    assert summary["priority/drawn"] == pytest.approx((1 * 1 + 2 * 4 + 3 * 9) / 6)


def test_windows_that_are_drawn_alike_all_count():
    replay = make_replay(priority_exponent=0.0)
    fill(replay, 10)
    summary = replay.summary()
    assert summary["replay/effective_windows"] == pytest.approx(10)
    assert summary["replay/age"] == pytest.approx(5.5)
    assert "priority/drawn" not in summary  # with exponent 0, weights do not contain priorities


def test_the_age_is_of_the_windows_held_after_others_have_left():
    replay = make_replay(priority_exponent=1.0, capacity=8)
    fill(replay, 20, priorities=np.arange(20.0))
    ages = np.arange(8, 0, -1)
    weights = np.arange(12.0, 20.0)
    assert replay.summary()["replay/age"] == pytest.approx((ages * weights).sum() / weights.sum())
