import dataclasses

import pytest

from agent57.replay.store import BlockStore

from . import episodes
from .episodes import PAIR, SINGLE, TRIPLE


def make_block(lane: int, episode: int, index: int, length: int = 4, is_last: bool = False):
    ends = {"is_last": is_last, "is_terminated": is_last}
    return episodes.make_block(length, lane=lane, episode=episode, index=index, **ends)


def add_episode(store, lane, episode, num_blocks, last_length=4):
    return [
        store.add(make_block(lane, episode, k, last_length if k == num_blocks - 1 else 4,
                             k == num_blocks - 1))
        for k in range(num_blocks)
    ]  # fmt: skip


def test_windows_by_hand():
    store = BlockStore(PAIR, 1000)
    assert add_episode(store, 0, 0, 4, 2) == [None, 0, 1, 2]
    assert add_episode(store, 0, 1, 1, 3) == [4]  # shorter than a block
    assert add_episode(store, 0, 2, 2) == [None, 5]  # exactly a window
    assert [len(store.window(i)) for i in (0, 1, 2, 4, 5)] == [2, 2, 2, 1, 2]
    assert store.num_transitions == 14 + 3 + 8
    store.check_valid([0, 1, 2, 4, 5])


def test_one_block_windows_by_hand():
    store = BlockStore(SINGLE, 1000)
    assert add_episode(store, 0, 0, 3, 1) == [0, 1, 2]
    store.check_valid([0, 1, 2])


def test_interleaved_lanes_keep_their_own_order():
    store = BlockStore(TRIPLE, 1000)
    completed = []
    for k in range(4):
        for lane in range(3):
            completed.append(store.add(make_block(lane, 5, k, is_last=k == 3)))
    assert completed == [None] * 6 + [0, 1, 2, 3, 4, 5]
    for first in range(6):
        window = store.window(first)
        assert [block.lane for block in window] == [first % 3] * 3
        assert [block.index for block in window] == [first // 3 + i for i in range(3)]


def test_blocks_leave_in_the_order_they_came():
    store = BlockStore(PAIR, 10)
    for k in range(6):
        store.add(make_block(0, 0, k))
        assert store.num_transitions <= 10
        assert store.live_ids == range(max(0, k - 1), k + 1)
    add_episode(store, 1, 0, 1, 1)
    assert store.live_ids == range(4, 7)  # blocks of 4, 4 and 1 steps fit


def test_a_window_whose_start_has_left_is_not_completed():
    store = BlockStore(PAIR, 8)
    store.add(make_block(0, 0, 0))
    store.add(make_block(1, 0, 0))
    store.add(make_block(2, 0, 0))  # lane 0's first block leaves
    assert store.add(make_block(0, 0, 1)) is None
    assert store.add(make_block(2, 0, 1)) is None  # this block evicts the window's start
    assert store.live_ids == range(3, 5)
    assert store.add(make_block(0, 0, 2)) is None


def test_only_blocks_that_can_start_a_window_keep_their_state():
    store = BlockStore(TRIPLE, 1000)
    add_episode(store, 0, 0, 5)
    has_state = [store.block(i).state is not None for i in store.live_ids]
    assert has_state == [True, True, True, False, False]
    add_episode(store, 0, 1, 2)
    assert [store.block(i).state is not None for i in (5, 6)] == [True, False]
    store.add(make_block(0, 2, 0))
    store.add(make_block(0, 2, 1))
    store.add(make_block(0, 3, 0))  # episode 2 was never finished
    assert [store.block(i).state is not None for i in (7, 8, 9)] == [True, False, True]
    store.check_valid([0, 1, 2, 5])


def test_bytes_are_counted_as_blocks_come_and_go():
    store = BlockStore(PAIR, 12)
    empty = store.num_bytes
    for k in range(9):
        store.add(make_block(0, 0, k, is_last=k == 8))
        store.check_valid([])
    expected = sum(store.block(i).num_bytes for i in store.live_ids)
    assert store.num_bytes == empty + expected


def test_slots_double_when_short_episodes_need_them():
    store = BlockStore(PAIR, 1000)
    first = store.num_slots
    for episode in range(3 * first):
        assert add_episode(store, 0, episode, 1, 1) == [episode]
    assert store.num_slots == 4 * first
    assert [store.block(i).episode for i in store.live_ids] == list(range(3 * first))
    store.check_valid(store.live_ids)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (make_block(0, 0, 2), "block 2 of episode 0 of lane 0 came after block 0 of episode 0"),
        (make_block(0, 0, 0 + 3), "came after"),
        (make_block(0, 1, 1), "came after"),
        (make_block(1, 0, 1), "came as the first"),
        (make_block(0, 0, 1, length=3), "cut short"),
        (make_block(0, 0, 1, length=5), "has 5 steps"),
        (dataclasses.replace(make_block(0, 0, 1), length=3), "has 3 steps"),
    ],
)
def test_gaps_and_misfits_are_refused(block, message):
    store = BlockStore(PAIR, 1000)
    store.add(make_block(0, 0, 0))
    with pytest.raises(ValueError, match=message):
        store.add(block)
    assert store.add(make_block(0, 0, 1)) == 0  # the refused block changed nothing
    with pytest.raises(ValueError, match="came after"):
        store.add(make_block(0, 0, 1))  # the same block twice


def test_missing_blocks_are_noticed_when_loading():
    store = BlockStore(PAIR, 1000)
    add_episode(store, 0, 0, 3)
    blocks = [(i, store.block(i)) for i in store.live_ids]
    with pytest.raises(ValueError, match="replay block 1 is missing"):
        BlockStore(PAIR, 1000).load_state_dict(store.state_dict(), [blocks[0], blocks[2]])
    with pytest.raises(ValueError, match="shorter"):
        BlockStore(PAIR, 1000).load_state_dict(store.state_dict(), blocks[:2])


def test_corruption_is_noticed():
    store = BlockStore(PAIR, 1000)
    add_episode(store, 0, 0, 2)
    store.add(make_block(0, 1, 0))
    store.check_valid([0])
    with pytest.raises(AssertionError, match="cut short"):
        store.check_valid([2])
    with pytest.raises(AssertionError, match="recurrent state|cut short"):
        store.check_valid([1])
    with pytest.raises(AssertionError, match="first block"):
        store.check_valid([99])


@pytest.mark.parametrize("sequence", [SINGLE, PAIR, TRIPLE])
def test_after_a_gap_windows_begin_anew_where_that_is_allowed(sequence):
    store = BlockStore(sequence, 1000)
    add_episode(store, 1, 0, 2)  # an episode of another lane
    store.add(make_block(0, 0, 0))
    with pytest.raises(ValueError, match="came after block 0"):
        store.add(make_block(0, 0, 2))
    completed = [
        store.add(make_block(0, 0, k, is_last=k == 6), allow_gap=True) for k in (2, 3, 4, 6)
    ]
    windows = [key for key in completed if key is not None]
    for key in windows:
        window = store.window(key)
        assert len(window) == sequence.blocks_per_window
        assert [b.index for b in window] == list(range(window[0].index, window[-1].index + 1))
        assert window[0].index >= 2
    assert len(windows) == {1: 4, 2: 2, 3: 1}[sequence.blocks_per_window]
    store.check_valid(windows)


def test_the_end_of_an_episode_alone_is_no_window():
    store = BlockStore(PAIR, 1000)
    assert store.add(make_block(0, 3, 5, 2, is_last=True), allow_gap=True) is None
    assert add_episode(store, 0, 4, 2) == [None, 1]
