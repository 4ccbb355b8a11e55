import dataclasses
import pickle
import tracemalloc

import numpy as np
import pytest

from agent57.replay.block import Block

from .episodes import PAIR, PIXELS, SINGLE, TRIPLE, VECTOR


def make_block(**changes) -> Block:
    steps = np.zeros(3, PIXELS.step_dtype)
    steps["action"] = [1, 2, 17]
    steps["extrinsic"] = [0.5, -0.0, np.inf]
    fields = {
        "lane": 255,
        "episode": 2**40,
        "index": 7,
        "length": 3,
        "is_last": True,
        "is_terminated": False,
        "arm": 31,
        "observations": b"some bytes",
        "is_compressed": True,
        "steps": steps,
        "previous_action": 17,
        "previous_extrinsic": -1.5,
        "previous_intrinsic": 0.25,
        "state": np.arange(12, dtype=np.float32).reshape(2, 2, 3),
        "priority": 1 / 3,
    }
    return Block(**(fields | changes))


def assert_same_block(one: Block, other: Block) -> None:
    for field in dataclasses.fields(Block):
        left, right = getattr(one, field.name), getattr(other, field.name)
        assert type(left) is type(right), field.name
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            assert left.shape == right.shape
            assert left.tobytes() == right.tobytes()
        else:
            assert left == right, field.name


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": None},
        {"state": np.zeros((1, 2, 0), np.float32)},
        {"observations": b"", "is_compressed": False},
        {"is_last": False},
        {"is_terminated": True},
        {"steps": np.ones(3, VECTOR.step_dtype)},
    ],
)
def test_bytes_round_trip(changes):
    block = make_block(**changes)
    assert_same_block(Block.from_bytes(block.to_bytes()), block)


def test_pickle_round_trip_shares_the_step_dtype():
    block = pickle.loads(pickle.dumps(make_block()))
    assert_same_block(block, make_block())
    assert block.steps.dtype is PIXELS.step_dtype


def test_damaged_bytes_are_refused():
    message = make_block().to_bytes()
    for damaged in (b"", message[:10], message[:-1], message + b"\0", b"XXXX" + message[4:]):
        with pytest.raises(ValueError, match="replay block"):
            Block.from_bytes(damaged)
    with pytest.raises(ValueError, match="version 2"):
        Block.from_bytes(message[:4] + b"\2\0" + message[6:])


@pytest.mark.parametrize(
    ("num_actions", "action_bytes"), [(2, 1), (256, 1), (257, 2), (65536, 2), (65537, 4)]
)
def test_actions_take_as_few_bytes_as_they_can(num_actions, action_bytes):
    layout = dataclasses.replace(PIXELS, num_actions=num_actions)
    assert layout.step_dtype.itemsize == 12 + action_bytes
    steps = np.zeros(1, layout.step_dtype)
    steps["action"] = num_actions - 1
    assert steps["action"][0] == num_actions - 1


def test_layout_sizes_by_hand():
    assert dataclasses.replace(PIXELS, num_cores=2, state=512).state_shape == (2, 2, 512)


def test_which_blocks_complete_a_window_by_hand():
    middle = [make_block(index=k, is_last=False) for k in range(4)]
    assert [block.completes_window(SINGLE) for block in middle] == [True, True, True, True]
    assert [block.completes_window(PAIR) for block in middle] == [False, True, True, True]
    assert [block.completes_window(TRIPLE) for block in middle] == [False, False, True, True]
    assert all(make_block(index=k).completes_window(TRIPLE) for k in range(4))


def test_num_bytes_is_the_memory_taken():
    def fresh(seed: int) -> Block:
        rng = np.random.default_rng(seed)
        return make_block(
            lane=1000 + seed,
            episode=10**6 + seed,
            observations=rng.bytes(4000),
            steps=rng.integers(0, 9, (80, 13))
            .astype(np.uint8)
            .view(PIXELS.step_dtype)[:, 0]
            .copy(),
            state=rng.random((2, 2, 128)).astype(np.float32),
            priority=float(rng.random()),
            previous_extrinsic=float(rng.random()),
            previous_intrinsic=float(rng.random()),
        )

    fresh(0)
    tracemalloc.start()
    blocks = [fresh(seed) for seed in range(300)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(block.num_bytes for block in blocks) == pytest.approx(taken, rel=0.03)
