from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from agent57.replay.block import Decoder, Encoder


def images(count: int = 9) -> np.ndarray:
    rows = np.zeros((count, 1, 84, 84), np.uint8)
    rows[:, 0, 10:20, 30:40] = np.arange(count)[:, None, None] + 100
    return rows


@pytest.mark.parametrize("level", [1, 3, 9])
def test_images_come_back_smaller_and_the_same(level):
    encoded, is_compressed = Encoder(level).encode(images())
    assert is_compressed
    assert len(encoded) < images().nbytes / 20
    assert Decoder().decode(encoded, is_compressed) == images().tobytes()


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((100, 50), np.float32),  # vectors
        np.zeros((5, 3, 3), np.uint8),  # tiny
        np.random.default_rng(0).integers(0, 256, (9, 30, 30)).astype(np.uint8),  # noise
    ],
)
def test_what_compression_does_not_help_is_kept_raw(rows):
    encoded, is_compressed = Encoder(1).encode(rows)
    assert not is_compressed
    assert encoded == rows.tobytes()
    assert Decoder().decode(encoded, is_compressed) is encoded


def test_a_part_of_a_larger_array_is_enough():
    rows = np.random.default_rng(0).integers(0, 2, (4, 20, 40, 40)).astype(np.uint8)
    encoded, is_compressed = Encoder(1).encode(rows[:, ::2, 3:])
    assert Decoder().decode(encoded, is_compressed) == rows[:, ::2, 3:].tobytes()


def test_threads_may_share_one():
    encoder, decoder = Encoder(1), Decoder()

    def round_trip(seed: int) -> bool:
        rows = images()
        rows[:, 0, seed % 84] = seed % 256
        return decoder.decode(*encoder.encode(rows)) == rows.tobytes()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(round_trip, range(400)))
