"""Arms drawn for windows: the hash against Python's integers, shares by law."""

import pytest
import torch

from agent57.ops.meme import cross_arms, hashed_uniforms

KEYS = torch.arange(40_000)
ARMS = KEYS % 3


def splitmix64(key: int, salt: int) -> float:
    """Compute SplitMix64 in Python's unbounded integers (Steele et al., 2014)."""
    mask = 2**64 - 1
    x = (key + salt * 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return ((x ^ (x >> 31)) >> 11) / 2**53


@pytest.mark.parametrize("salt", [0, 3, 10**9])
def test_the_hash_by_definition(salt: int) -> None:
    keys = [0, 1, 12345, 2**40]
    assert hashed_uniforms(torch.tensor(keys), salt).tolist() == [splitmix64(k, salt) for k in keys]


def test_nothing_is_drawn_unless_asked() -> None:
    assert torch.equal(cross_arms(ARMS, KEYS, 5, 1.0, 8), ARMS)


def test_every_arm_is_drawn_alike_by_law() -> None:
    # Each of 8 arms has 1/16, and each of the three played arms 1/6 more.
    share = torch.bincount(cross_arms(ARMS, KEYS, 5, 0.5, 8)) / len(KEYS)
    expected = torch.tensor([1 / 16 + 1 / 6] * 3 + [1 / 16] * 5)
    torch.testing.assert_close(share, expected, atol=0.01, rtol=0)


def test_other_updates_draw_other_arms() -> None:
    first, second = (cross_arms(ARMS, KEYS, salt, 0.0, 8) for salt in (1, 2))
    assert (first == second).float().mean().item() == pytest.approx(1 / 8, abs=0.01)


def test_a_window_has_its_arm_wherever_it_stands_in_a_batch() -> None:
    order = torch.randperm(len(KEYS))
    shuffled = cross_arms(ARMS[order], KEYS[order], 5, 0.5, 8)
    assert torch.equal(shuffled, cross_arms(ARMS, KEYS, 5, 0.5, 8)[order])
