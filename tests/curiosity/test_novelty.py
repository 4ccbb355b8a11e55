import numpy as np
import pytest

from agent57.config import CuriosityConfig
from agent57.curiosity.episodic import kernel_novelty, least_novelty
from tests.ops import golden

CONFIG = CuriosityConfig()


def one(distances: list[float], mean: float, config: CuriosityConfig = CONFIG) -> float:
    row = np.array([distances], dtype=np.float32)
    return float(kernel_novelty(row, np.array([mean]), config)[0])


def test_one_neighbour_at_the_running_mean_by_hand() -> None:
    similarity = (1e-4 / (1 - 8e-3 + 1e-4)) ** 0.5 + 1e-3
    assert one([4.0], 4.0) == pytest.approx(1 / similarity)


def test_two_neighbours_by_hand() -> None:
    kernels = 1e-4 / (0.5 - 8e-3 + 1e-4) + 1e-4 / (3 - 8e-3 + 1e-4)
    assert one([1.0, 6.0], 2.0) == pytest.approx(1 / (kernels**0.5 + 1e-3))


@pytest.mark.parametrize(
    ("rate", "novelty"), [(0.0, 0.316), (0.1, 9.51), (1.0, 30.54), (2.0, 42.7), (10.0, 90.9)]
)
def test_typical_scale_with_ten_neighbours(rate: float, novelty: float) -> None:
    assert one([7.0 * rate] * 10, 7.0) == pytest.approx(novelty, rel=2e-3)


def test_regression_neighbours_of_one_cluster_told_apart() -> None:
    # Without the cluster distance xi the first novelty would be 2.8, not 0.316.
    assert one([0.0079] * 10, 1.0) == pytest.approx(one([0.0] * 10, 1.0))
    assert one([0.0081] * 10, 1.0) > one([0.0] * 10, 1.0)


def test_too_familiar_states_earn_nothing() -> None:
    # Sixty-four identical neighbours reach s_m = 8; ten cannot.
    assert one([0.0] * 64, 1.0) == 0.0
    assert one([0.0] * 63, 1.0) > 0.0


def test_missing_neighbours_add_nothing_by_law() -> None:
    assert one([1.0, 2.0, np.inf, np.inf], 1.5) == one([1.0, 2.0], 1.5)


def test_regression_fewer_neighbours_than_k_earn_nothing() -> None:
    assert one([1.0] + [np.inf] * 9, 1.0) > 30


def test_regression_empty_memory_pays_the_most() -> None:
    assert one([np.inf] * 10, 0.0) == 0.0
    assert one([np.inf] * 10, 3.0) == 0.0


def test_mean_of_zero_means_identical_states() -> None:
    with np.errstate(all="raise"):
        assert one([0.0] * 10, 0.0) == pytest.approx(1 / (10**0.5 + 1e-3))


def test_only_ratios_of_distances_count_by_law() -> None:
    rng = np.random.default_rng(0)
    distance_sq = rng.random((6, 10)).astype(np.float32)
    mean = rng.random(6)
    scaled = kernel_novelty(distance_sq * 1024, mean * 1024, CONFIG)
    np.testing.assert_array_equal(scaled, kernel_novelty(distance_sq, mean, CONFIG))


def test_farther_is_more_novel_by_law() -> None:
    novelty = [one([distance] * 10, 1.0) for distance in np.linspace(0.01, 20, 50)]
    assert (np.diff(novelty) > 0).all()
    assert max(novelty) < 1 / CONFIG.pseudo_count


def test_regression_similarity_summed_over_all_lanes() -> None:
    rng = np.random.default_rng(0)
    distance_sq, mean = rng.random((4, 10)).astype(np.float32), rng.random(4)
    together = kernel_novelty(distance_sq, mean, CONFIG)
    assert len(set(together.tolist())) == 4
    for lane in range(4):
        alone = kernel_novelty(distance_sq[[lane]], mean[[lane]], CONFIG)
        np.testing.assert_array_equal(alone, together[[lane]])


def test_every_constant_is_read() -> None:
    base = one([0.0, 0.01, 1.0], 1.0)
    for changed in (
        CuriosityConfig(kernel_epsilon=1e-3),
        CuriosityConfig(cluster_distance=0.0),
        CuriosityConfig(pseudo_count=0.1),
        CuriosityConfig(max_similarity=1.0),
    ):
        assert one([0.0, 0.01, 1.0], 1.0, changed) != base


def test_a_walk_equals_rlax() -> None:
    case = golden.load("novelty")
    memory, total, count = list(case["first"]), 0.0, 0
    for embedding, expected in zip(case["walk"], case["novelty"], strict=True):
        distance_sq = np.sort(((np.array(memory) - embedding) ** 2).sum(1))[:10]
        total, count = total + distance_sq.sum(), count + 10
        novelty = kernel_novelty(distance_sq[None], np.array([total / count]), CONFIG)
        np.testing.assert_allclose(novelty[0], expected, rtol=1e-6)
        memory.append(embedding)


def test_the_least_novelty_is_that_of_a_state_seen_k_times_by_hand() -> None:
    config = CuriosityConfig()
    seen = kernel_novelty(np.zeros((1, 10), np.float32), np.ones(1), config)
    assert seen == least_novelty(config) == np.float32(1 / (10**0.5 + 1e-3))
    near = kernel_novelty(np.full((1, 10), 0.0081, np.float32), np.ones(1), config)
    assert near > least_novelty(config)
