import dataclasses

import numpy as np
import pytest
import torch

from agent57.replay.store import WindowReader
from agent57.types import Batch

from .definition import (
    assert_same_batch,
    assert_same_window,
    batch_column,
    window_by_definition,
    window_starts,
)
from .episodes import PAIR, PIXELS, SINGLE, TRIPLE, VECTOR, Lanes, make_assembler, play_episode


def windows_of(blocks, sequence):
    """Return the windows of a finished episode's blocks."""
    count = sequence.blocks_per_window
    return [blocks[k : k + count] for k in range(max(1, len(blocks) - count + 1))]


def read(windows, sequence, layout, threads=1) -> Batch:
    reader = WindowReader(sequence, layout, threads=threads, pin_memory=False)
    return reader.read(windows, np.arange(len(windows)), np.full(len(windows), 0.5))


@pytest.mark.parametrize("layout", [PIXELS, VECTOR])
@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("sequence", [SINGLE, PAIR, TRIPLE])
@pytest.mark.parametrize("length", [1, 4, 5, 8, 9, 12, 13, 30])
def test_windows_by_definition(layout, truncated, sequence, length):
    lanes = Lanes(1, layout, seed=length)
    blocks, _ = play_episode(lanes, make_assembler(sequence, layout), length, truncated=truncated)
    windows = windows_of(blocks, sequence)
    batch = read(windows, sequence, layout)
    starts = window_starts(lanes.finished[0], sequence)
    assert len(windows) == len(starts)
    for column, start in enumerate(starts):
        expected = window_by_definition(lanes.finished[0], start, sequence, layout)
        assert_same_window(batch_column(batch, column), expected)


def test_the_tail_of_a_truncated_episode_by_hand():
    lanes = Lanes(1, VECTOR)
    blocks, _ = play_episode(lanes, make_assembler(PAIR, VECTOR), 5, truncated=True)
    episode = lanes.finished[0]
    batch = read([blocks], PAIR, VECTOR)
    assert batch.mask[:, 0].tolist() == [True] * 5 + [False] * 3
    assert batch.discount[:, 0].tolist() == [1] * 5 + [0] * 3
    assert batch.action_prob[5:, 0].tolist() == [1] * 3
    # Row 5 is for bootstrapping, with the inputs that a player would see.
    assert batch.observation[5, 0].tolist() == episode.final_observation.tolist()
    assert batch.previous_extrinsic[5, 0] == episode.rows[4]["extrinsic"]
    assert batch.observation[6:].abs().sum() == 0
    assert batch.previous_extrinsic[6:].abs().sum() == 0


def test_only_the_terminated_row_has_no_discount_by_hand():
    blocks, _ = play_episode(Lanes(1, VECTOR), make_assembler(PAIR, VECTOR), 5)
    batch = read([blocks], PAIR, VECTOR)
    assert batch.discount[:, 0].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_types_and_shapes_are_those_of_the_contract():
    blocks, _ = play_episode(Lanes(1, PIXELS), make_assembler(PAIR, PIXELS), 30)
    windows = windows_of(blocks, PAIR)[:3]
    batch = read(windows, PAIR, PIXELS)
    shapes = {name: tuple(getattr(batch, name).shape) for name in Batch.__dataclass_fields__}
    assert shapes == {
        "observation": (9, 3, 1, 16, 16),
        "previous_action": (9, 3),
        "previous_extrinsic": (9, 3),
        "previous_intrinsic": (9, 3),
        "action": (8, 3),
        "action_prob": (8, 3),
        "extrinsic": (8, 3),
        "intrinsic": (8, 3),
        "discount": (8, 3),
        "mask": (8, 3),
        "arm": (3,),
        "start": (3,),
        "state": (2, 2, 3, 3),
        "key": (3,),
        "probability": (3,),
    }
    integers = ("previous_action", "action", "arm", "start", "key")
    assert all(getattr(batch, name).dtype == torch.int64 for name in integers)
    assert batch.observation.dtype == torch.uint8
    assert batch.probability.dtype == torch.float64
    assert batch.mask.dtype == torch.bool
    assert all(getattr(batch, name).is_contiguous() for name in shapes)


def test_threads_change_nothing_by_law():
    blocks, _ = play_episode(Lanes(1, PIXELS), make_assembler(PAIR, PIXELS), 400)
    windows = windows_of(blocks, PAIR) * 6
    one = read(windows, PAIR, PIXELS, threads=1)
    assert one.observation.nbytes > 1 << 20  # enough to be read in parallel
    assert_same_batch(read(windows, PAIR, PIXELS, threads=4), one)


def test_a_network_without_core_has_an_empty_state():
    layout = dataclasses.replace(VECTOR, num_values=2, num_cores=2, state=0)
    blocks, _ = play_episode(Lanes(1, layout), make_assembler(PAIR, layout), 5)
    batch = read([blocks], PAIR, layout)
    assert batch.state.shape == (2, 2, 1, 0)


def test_memory_is_used_again_only_when_no_tensor_needs_it():
    blocks, _ = play_episode(Lanes(1, PIXELS), make_assembler(PAIR, PIXELS), 41)
    long = windows_of(blocks, PAIR)[:3]
    tail = [[dataclasses.replace(blocks[-1], state=blocks[0].state)]] * 3
    reader = WindowReader(PAIR, PIXELS, threads=1, pin_memory=False)
    keys, probability = np.arange(3), np.ones(3)

    kept = reader.read(long, keys, probability)
    copy = kept.map(torch.clone)
    place = kept.observation.data_ptr()
    assert reader.read(tail, keys, probability).observation.data_ptr() != place
    assert_same_batch(kept, copy)

    part = kept.observation[2:]  # a view alone keeps the memory
    expected = part.clone()
    del kept
    others = [reader.read(tail, keys, probability) for _ in range(3)]
    assert torch.equal(part, expected)
    del part, others
    again = [reader.read(tail, keys, probability) for _ in range(2)]
    fresh = read(tail, PAIR, PIXELS)
    for batch in again:  # no values of earlier batches remain
        assert torch.equal(batch.observation, fresh.observation)
