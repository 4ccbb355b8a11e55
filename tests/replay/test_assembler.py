import dataclasses
import io

import numpy as np
import pytest
import torch

from agent57.replay.block import Decoder

from .definition import window_by_definition, window_starts
from .episodes import PAIR, PIXELS, SINGLE, TRIPLE, VECTOR, Lanes, make_assembler, play_episode


def lengths(blocks) -> list[int]:
    return [block.length for block in blocks]


def completes(blocks, sequence) -> list[bool]:
    return [block.completes_window(sequence) for block in blocks]


def observations(block, layout) -> np.ndarray:
    rows = Decoder().decode(block.observations, block.is_compressed)
    shape = (block.length + 1, *layout.observation_shape)
    return np.frombuffer(rows, layout.observation_dtype).reshape(shape)


@pytest.mark.parametrize(
    ("length", "blocks", "windows"),
    [
        (1, [1], [True]),
        (3, [3], [True]),  # shorter than a window
        (4, [4], [True]),  # exactly one block
        (5, [4, 1], [False, True]),  # one step longer
        (8, [4, 4], [False, True]),  # exactly a window
        (9, [4, 4, 1], [False, True, True]),  # the tail carries the last reward
        (13, [4, 4, 4, 1], [False, True, True, True]),
    ],
)
def test_how_an_episode_is_cut_by_hand(length, blocks, windows):
    cut, traces = play_episode(Lanes(1, PIXELS), make_assembler(PAIR, PIXELS), length)
    assert lengths(cut) == blocks
    assert completes(cut, PAIR) == windows
    assert len(traces) == sum(windows)
    assert [block.index for block in cut] == list(range(len(blocks)))
    assert [block.is_last for block in cut] == [False] * (len(blocks) - 1) + [True]


def test_three_blocks_make_a_window_with_burn_in():
    blocks, traces = play_episode(Lanes(1, PIXELS), make_assembler(TRIPLE, PIXELS), 17)
    assert completes(blocks, TRIPLE) == [False, False, True, True, True]
    assert [trace["start"] for trace in traces] == [0, 4, 8]
    blocks, traces = play_episode(Lanes(1, PIXELS), make_assembler(TRIPLE, PIXELS), 6)
    assert completes(blocks, TRIPLE) == [False, True]
    assert [trace["start"] for trace in traces] == [0]


def test_a_block_comes_one_step_late_and_the_last_one_at_once():
    lanes, assembler = Lanes(1, PIXELS), make_assembler(PAIR, PIXELS)
    counts = [len(assembler.add(lanes.step()).blocks) for _ in range(9)]
    assert counts == [0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert len(assembler.add(lanes.step(terminate=(0,))).blocks) == 1
    # a full block that waits and the last one of a single step come out together, in order
    for _ in range(4):
        assert assembler.add(lanes.step()) == ([], [])
    assert lengths(assembler.add(lanes.step(truncate=(0,))).blocks) == [4, 1]


@pytest.mark.parametrize("layout", [PIXELS, VECTOR])
@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("sequence", [SINGLE, PAIR, TRIPLE])
@pytest.mark.parametrize("length", [1, 4, 5, 8, 12, 13, 30])
def test_blocks_and_traces_by_definition(layout, truncated, sequence, length):
    lanes, assembler = Lanes(1, layout, seed=length), make_assembler(sequence, layout)
    play_episode(lanes, assembler, 3)  # an earlier episode must have no effect
    blocks, traces = play_episode(lanes, assembler, length, truncated=truncated)
    episode = lanes.finished[-1]
    seen = [row["observation"] for row in episode.rows] + [episode.final_observation]

    for block in blocks:
        first = block.index * sequence.replay_period
        rows = episode.rows[first : first + block.length]
        expected = np.stack(seen[first : first + block.length + 1])
        assert np.array_equal(observations(block, layout), expected)
        for name in ("action", "action_prob", "extrinsic", "intrinsic"):
            assert block.steps[name].tolist() == [row[name] for row in rows]
        assert block.previous_action == rows[0]["previous_action"]
        assert block.previous_extrinsic == rows[0]["previous_extrinsic"]
        assert block.previous_intrinsic == rows[0]["previous_intrinsic"]
        assert block.arm == episode.arm
        assert (block.lane, block.episode) == (0, 1)
        if block.state is not None:
            assert np.array_equal(block.state, rows[0]["state"])

    complete = [block for block in blocks if block.completes_window(sequence)]
    assert [b.priority for b in complete] == [t["extrinsic"].sum() for t in traces]
    assert all(block.priority == 0 for block in blocks if block not in complete)
    assert blocks[-1].is_terminated == (not truncated)
    assert [trace["start"] for trace in traces] == window_starts(episode, sequence)
    for trace in traces:
        assert_trace_by_definition(trace, episode, sequence, layout)


def assert_trace_by_definition(trace, episode, sequence, layout) -> None:
    start = int(trace["start"])
    expected = window_by_definition(episode, start, sequence, layout)
    for name in ("action", "action_prob", "extrinsic", "intrinsic", "discount", "mask", "arm"):
        assert np.array_equal(trace[name], expected[name]), name
    assert np.array_equal(trace["value"], values_by_definition(episode, start, sequence))


def values_by_definition(episode, start, sequence) -> np.ndarray:
    final = episode.final_value * (not episode.is_terminated)
    seen = [row["value"] for row in episode.rows] + [final]
    rows = [
        seen[t] if t < len(seen) else 0 * final
        for t in range(start, start + sequence.window_length + 1)
    ]
    return np.stack(rows)


def test_traces_of_many_lanes_by_definition():
    lanes, assembler = Lanes(4, PIXELS), make_assembler(TRIPLE, PIXELS, 4)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(300):
        episodes = list(lanes.running)
        ends = rng.random(4)
        played = lanes.step(
            terminate=tuple(np.flatnonzero(ends < 0.05)),
            truncate=tuple(np.flatnonzero((ends >= 0.05) & (ends < 0.1))),
        )
        blocks, traces = assembler.add(played)
        complete = [block for block in blocks if block.completes_window(TRIPLE)]
        for block, trace in zip(complete, traces, strict=True):
            first = max(0, block.index + 1 - TRIPLE.blocks_per_window)
            assert trace["start"] == first * TRIPLE.replay_period
            if block.is_last:  # other blocks still need their bootstrap row
                assert_trace_by_definition(trace, episodes[block.lane], TRIPLE, PIXELS)
                continue
            rows = episodes[block.lane].rows[trace["start"] :][: TRIPLE.window_length + 1]
            assert np.array_equal(trace["value"], np.stack([row["value"] for row in rows]))
            assert trace["extrinsic"].tolist() == [row["extrinsic"] for row in rows[:-1]]
            assert trace["mask"].all()
            assert trace["discount"].all()
        sizes.append((len(complete), len({block.is_last for block in complete})))
    assert max(sizes)[0] > 1
    assert any(kinds == 2 for _, kinds in sizes)  # full and last blocks in one step


def test_states_are_sent_where_a_window_can_start():
    blocks, _ = play_episode(Lanes(1, PIXELS), make_assembler(PAIR, PIXELS), 9)
    assert [block.state is not None for block in blocks] == [True, True, False]
    (alone,), _ = play_episode(Lanes(1, PIXELS), make_assembler(PAIR, PIXELS), 2)
    assert alone.state is not None
    single, _ = play_episode(Lanes(1, PIXELS), make_assembler(SINGLE, PIXELS), 9)
    assert all(block.state is not None for block in single)


def random_play(lanes, assembler, steps, seed):
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(steps):
        ends = rng.random(lanes.num_lanes)
        played = lanes.step(
            terminate=tuple(np.flatnonzero(ends < 0.05)),
            truncate=tuple(np.flatnonzero((ends >= 0.05) & (ends < 0.1))),
        )
        blocks += assembler.add(played).blocks
    return blocks


def messages(blocks) -> list[bytes]:
    return [block.to_bytes() for block in blocks]


def test_threads_change_nothing_by_law():
    one = random_play(Lanes(6, PIXELS), make_assembler(PAIR, PIXELS, 6), 100, 0)
    two = random_play(Lanes(6, PIXELS), make_assembler(PAIR, PIXELS, 6, threads=3), 100, 0)
    assert messages(one) == messages(two)
    assert len(one) > 50


def test_permuting_lanes_permutes_blocks_by_law():
    order = np.array([2, 0, 3, 1])
    lanes = Lanes(4, PIXELS)
    straight, permuted = make_assembler(PAIR, PIXELS, 4), make_assembler(PAIR, PIXELS, 4)
    rng = np.random.default_rng(0)
    for _ in range(60):
        played = lanes.step(terminate=tuple(np.flatnonzero(rng.random(4) < 0.1)))
        columns = {}
        for field in dataclasses.fields(played):
            if getattr(played, field.name) is None:
                continue
            axis = {"state": 2, "value": 1, "final_value": 1}.get(field.name, 0)
            columns[field.name] = np.take(getattr(played, field.name), order, axis)
        expected = {
            (block.lane, block.index): dataclasses.replace(block, lane=0).to_bytes()
            for block in straight.add(played).blocks
        }
        actual = {
            (order[block.lane], block.index): dataclasses.replace(block, lane=0).to_bytes()
            for block in permuted.add(type(played)(**columns)).blocks
        }
        assert actual == expected


def test_lanes_are_named_globally():
    assembler = make_assembler(PAIR, PIXELS, 2, first_lane=16)
    blocks, _ = assembler.add(Lanes(2, PIXELS).step(terminate=(0, 1)))
    assert [block.lane for block in blocks] == [16, 17]


def test_continues_in_mid_episode_from_its_state():
    lanes, original = Lanes(3, PIXELS), make_assembler(PAIR, PIXELS, 3)
    random_play(lanes, original, 37, 0)
    stored = io.BytesIO()
    torch.save(original.state_dict(), stored)
    stored.seek(0)
    resumed = make_assembler(PAIR, PIXELS, 3)
    resumed.load_state_dict(torch.load(stored, weights_only=True))
    rng = np.random.default_rng(1)
    count = 0
    for _ in range(60):
        played = lanes.step(truncate=tuple(np.flatnonzero(rng.random(3) < 0.1)))
        one, two = original.add(played), resumed.add(played)
        assert messages(one.blocks) == messages(two.blocks)
        for left, right in zip(one.traces, two.traces, strict=True):
            for name in left:
                assert np.array_equal(left[name], right[name]), name
        count += len(one.blocks)
    assert count > 20


def test_the_state_is_a_copy():
    lanes, assembler = Lanes(1, PIXELS), make_assembler(PAIR, PIXELS)
    assembler.add(lanes.step())
    state = assembler.state_dict()
    assembler.add(lanes.step())
    assert state["position"].tolist() == [1]


def test_a_state_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="shape"):
        make_assembler(PAIR, PIXELS, 2).load_state_dict(
            make_assembler(PAIR, PIXELS, 3).state_dict()
        )


def test_an_abandoned_episode_is_never_continued():
    lanes, assembler = Lanes(2, PIXELS), make_assembler(PAIR, PIXELS, 2)
    for _ in range(6):
        assembler.add(lanes.step())
    assembler.abandon(np.array([True, False]))
    blocks = [block for _ in range(5) for block in assembler.add(lanes.step()).blocks]
    assert [(block.lane, block.episode, block.index) for block in blocks] == [
        (1, 0, 1),
        (0, 1, 0),
    ]
    assembler.abandon(np.array([False, False]))
    fresh = make_assembler(PAIR, PIXELS, 2)
    fresh.abandon(np.array([True, True]))
    assert fresh.state_dict()["episode"].tolist() == [0, 0]  # no episode was running


def test_impossible_rows_are_refused():
    lanes, assembler = Lanes(1, PIXELS), make_assembler(PAIR, PIXELS)
    with pytest.raises(ValueError, match="terminated and truncated"):
        assembler.add(lanes.step(terminate=(0,), truncate=(0,)))
    with pytest.raises(ValueError, match="actions must lie"):
        assembler.add(dataclasses.replace(lanes.step(), action=np.array([18])))


def test_a_terminated_bootstrap_is_not_read():
    lanes, assembler = Lanes(1, PIXELS), make_assembler(PAIR, PIXELS)
    played = lanes.step(terminate=(0,))
    poisoned = dataclasses.replace(played, final_value=np.full_like(played.final_value, np.nan))
    assert np.isfinite(assembler.add(poisoned).traces[0]["value"]).all()
