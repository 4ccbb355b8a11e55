import numpy as np
import pytest

from agent57.replay.buffer import SumTree


def test_finds_leaves_by_hand():
    tree = SumTree(np.zeros(4))
    tree.set(np.array([0, 1, 2, 3]), np.array([1.0, 0.0, 2.0, 1.0]))
    assert tree.total == 4
    fractions = np.array([0.0, 0.24, 0.25, 0.5, 0.74, 0.75, 0.99])
    assert tree.find(fractions).tolist() == [0, 0, 2, 2, 2, 3, 3]


@pytest.mark.parametrize("num_set", [1, 3, 10])
def test_agrees_with_a_running_sum_by_definition(num_set):
    rng = np.random.default_rng(0)
    tree = SumTree(np.zeros(64))
    weights = np.zeros(64)
    for _ in range(50):
        leaves = rng.integers(64, size=num_set)
        values = rng.integers(0, 5, size=num_set).astype(float)  # whole numbers: sums are exact
        tree.set(leaves, values)
        for leaf, value in zip(leaves, values, strict=True):
            weights[leaf] = value
        fractions = rng.random(200)
        expected = np.searchsorted(np.cumsum(weights), fractions * weights.sum(), side="right")
        assert np.array_equal(tree.weights, weights)
        assert np.array_equal(tree.find(fractions), expected)


def test_setting_all_at_once_is_setting_each_by_law():
    weights = np.random.default_rng(1).random(32)
    one, other = SumTree(weights), SumTree(np.zeros(32))
    other.set(np.arange(32), weights)
    assert one.total == other.total
    fractions = np.linspace(0, 1, 1000, endpoint=False)
    assert np.array_equal(one.find(fractions), other.find(fractions))


def test_never_finds_a_leaf_without_weight():
    rng = np.random.default_rng(2)
    for _ in range(200):
        weights = rng.random(128) ** 20 * (rng.random(128) < 0.1)
        weights[rng.integers(128)] = 1e-30
        tree = SumTree(weights)
        fractions = np.append(rng.random(50), np.nextafter(1.0, 0.0))
        assert (weights[tree.find(fractions)] > 0).all()


def test_rounding_does_not_build_up():
    tree = SumTree(np.zeros(8))
    rng = np.random.default_rng(3)
    for _ in range(10_000):
        tree.set(rng.integers(8, size=1), 10.0 ** rng.uniform(-12, 12, size=1))
    tree.set(np.arange(8), np.zeros(8))
    assert tree.total == 0


def test_one_leaf_is_always_found():
    tree = SumTree(np.zeros(1))
    tree.set(np.array([0]), np.array([0.1]))
    assert tree.find(np.array([0.0, 0.999])).tolist() == [0, 0]


def test_an_empty_tree_refuses_to_find():
    with pytest.raises(ValueError, match="nothing to find"):
        SumTree(np.zeros(4)).find(np.array([0.5]))


def test_weights_cannot_be_written_past_the_sums():
    with pytest.raises(ValueError, match="read-only"):
        SumTree(np.zeros(4)).weights[0] = 1.0


@pytest.mark.parametrize("num_leaves", [0, 3, 12])
def test_leaves_are_a_power_of_two(num_leaves):
    with pytest.raises(ValueError, match="power of two"):
        SumTree(np.zeros(num_leaves))
