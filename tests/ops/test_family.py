import numpy as np
import pytest

from agent57.config import FamilyConfig
from agent57.ops.family import annealed, betas, gammas, lane_epsilons


def sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x))


def test_small_families_by_hand() -> None:
    for arms, beta, gamma in [
        (1, [0.0], [0.9999]),
        (2, [0.0, 0.3], [0.9999, 0.99]),
        (3, [0.0, 0.3 * sigmoid(10), 0.3], [0.9999, 0.997, 0.99]),
        (4, [0.0, 0.15, 0.3 * sigmoid(10), 0.3], [0.9999, 0.997, 0.997, 0.99]),
    ]:
        config = FamilyConfig(arms=arms)
        np.testing.assert_allclose(betas(config), beta, rtol=1e-12)
        np.testing.assert_allclose(gammas(config), gamma, rtol=1e-12)


def test_agent57_discounts_by_definition() -> None:
    for arms in (5, 12, 16, 64):
        m = min(max(round(7 * (arms - 1) / 31), 1), arms - 3)
        span = arms - 2 - m
        expected = [0.9999]
        for j in range(1, m):
            shape = sigmoid(10 * (2 * j - (m - 1)) / (m - 1))
            expected.append(0.9999 + (0.997 - 0.9999) * shape)
        expected.append(0.997)
        for k in range(span + 1):
            mean = ((span - k) * np.log(1 - 0.997) + k * np.log(1 - 0.99)) / span
            expected.append(1 - np.exp(mean))
        np.testing.assert_allclose(gammas(FamilyConfig(arms=arms)), expected, rtol=1e-12)


@pytest.mark.parametrize("discounts", ["agent57", "ngu"])
def test_any_size_is_monotone_between_its_ends_by_law(discounts: str) -> None:
    for arms in range(1, 257):
        config = FamilyConfig(arms=arms, discounts=discounts)
        beta, gamma = betas(config), gammas(config)
        assert beta.shape == gamma.shape == (arms,)
        assert beta.dtype == gamma.dtype == np.float64
        assert (np.diff(beta) > 0).all()
        assert (np.diff(gamma) <= 0).all()
        assert beta[0] == 0
        assert gamma[0] == 0.9999
        if arms > 1:
            assert beta[-1] == 0.3
            assert gamma[-1] == 0.99


def test_the_middle_discount_is_reached_by_law() -> None:
    for arms in range(3, 257):
        assert 0.997 in gammas(FamilyConfig(arms=arms))


def test_no_curiosity_is_all_zero() -> None:
    assert not betas(FamilyConfig(max_beta=0.0)).any()


def test_given_lists_replace_the_curves() -> None:
    config = FamilyConfig(arms=3, betas=(0.0, 0.1, 5.0), gammas=(0.9, 0.8, 0.95))
    np.testing.assert_array_equal(betas(config), [0.0, 0.1, 5.0])
    np.testing.assert_array_equal(gammas(config), [0.9, 0.8, 0.95])


def test_regression_exploiting_arm_with_the_short_horizon() -> None:
    # Ascending discounts would train the arm without curiosity with the smallest gamma.
    config = FamilyConfig()
    assert gammas(config).argmax() == betas(config).argmin() == 0
    assert gammas(config).argmin() == betas(config).argmax() == 31


def test_lane_epsilons_by_hand() -> None:
    epsilon = lane_epsilons(0.4, 8.0, np.arange(5), 5)
    np.testing.assert_allclose(epsilon, [0.4, 0.4**3, 0.4**5, 0.4**7, 0.4**9])


def test_lane_epsilons_depend_on_the_global_lane_by_law() -> None:
    everyone = lane_epsilons(0.4, 8.0, np.arange(256), 256)
    second_player = lane_epsilons(0.4, 8.0, np.arange(128, 256), 256)
    np.testing.assert_array_equal(second_player, everyone[128:])


def test_a_single_lane_plays_with_epsilon_itself() -> None:
    np.testing.assert_array_equal(lane_epsilons(0.4, 8.0, np.array([0]), 1), [0.4])


def test_regression_lane_epsilons_with_the_exponents_of_ape_x() -> None:
    # The last exponent is 1 + 8, not 1 + 7.
    epsilon = lane_epsilons(0.4, 8.0, np.array([255]), 256)
    np.testing.assert_allclose(epsilon, [0.4**9])
    assert abs(epsilon[0] - 2.6e-4) < 1e-5


def test_annealed_epsilons_by_hand() -> None:
    epsilon = np.array([0.4, 0.0])
    np.testing.assert_allclose(annealed(epsilon, 0, 100), [1.0, 1.0])
    np.testing.assert_allclose(annealed(epsilon, 50, 100), [0.7, 0.5])
    np.testing.assert_allclose(annealed(epsilon, 100, 100), epsilon)
    np.testing.assert_array_equal(annealed(epsilon, 1000, 100), epsilon)


def test_without_annealing_epsilons_are_the_papers() -> None:
    epsilon = lane_epsilons(0.4, 8.0, np.arange(5), 5)
    np.testing.assert_array_equal(annealed(epsilon, 0, 0), epsilon)
