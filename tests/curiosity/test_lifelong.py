"""Running moments against numpy, and the modulator by hand."""

import numpy as np
import pytest

from agent57.curiosity.reward import Modulator, RewardScale, RunningMoments
from agent57.trained.trained_run import pooled_moments
from tests.small import same_tree


def modulations(modulator: Modulator, errors: list[list[float]]) -> np.ndarray:
    """Return the modulations [E, T] of errors [E][T]."""
    return np.stack([modulator(row) for row in np.array(errors, float).T], axis=1)


def test_moments_of_each_lane_are_those_of_everything_it_saw_by_definition() -> None:
    values = np.random.default_rng(0).normal(5, 3, size=(50, 4)).astype(np.float32)
    moments = RunningMoments(4, horizon=0)
    for n, row in enumerate(values, start=1):
        moments.update(row)
        seen = values[:n].astype(np.float64)
        np.testing.assert_allclose(moments.mean, seen.mean(0))
        np.testing.assert_allclose(moments.deviation, seen.std(0), atol=1e-12)
        assert (moments.count == n).all()


def test_moments_with_a_horizon_by_hand() -> None:
    # 2 and 4 have mean 3 and sum of squares 2. A third value, 9, replaces half of both:
    # the mean of one 3 and one 9 is 6, and the sum of squares is 1 + 6 * 3.
    moments = RunningMoments(1, horizon=2)
    for value in (2.0, 4.0, 9.0):
        moments.update(np.array([value]))
    assert (moments.count, moments.mean) == (2, 6)
    np.testing.assert_allclose(moments.deviation, (19 / 2) ** 0.5)


def test_moments_with_a_horizon_are_exponential_averages_by_definition() -> None:
    horizon = 5
    values = np.random.default_rng(6).normal(2, 3, size=40)
    moments = RunningMoments(1, horizon)
    for value in values:
        moments.update(np.array([value]))
    age = np.arange(len(values))[::-1]
    weight = (1 - 1 / horizon) ** age / horizon
    weight[:horizon] = (1 - 1 / horizon) ** (len(values) - horizon) / horizon  # equal weights
    mean = (weight * values).sum()
    np.testing.assert_allclose(weight.sum(), 1)
    np.testing.assert_allclose(moments.mean, mean)
    np.testing.assert_allclose(moments.deviation**2, (weight * (values - mean) ** 2).sum())


def test_a_horizon_that_is_not_reached_changes_nothing_by_law() -> None:
    all_of_it, latest = RunningMoments(3, horizon=0), RunningMoments(3, horizon=50)
    for row in np.random.default_rng(7).exponential(size=(50, 3)):
        all_of_it.update(row)
        latest.update(row)
    assert same_tree(all_of_it.state_dict(), latest.state_dict())


def test_errors_of_the_untrained_predictor_are_forgotten() -> None:
    # A hundred errors are near 100, later errors near 1: now an error of 2 is unusual.
    early, late = [100.0, 101.0] * 50, [1.0, 1.1] * 200
    always, lately = (Modulator(1, 5.0, warmup_steps=0, horizon=horizon) for horizon in (0, 20))
    assert modulations(always, [[*early, *late, 2.0]])[0, -1] == 1
    assert modulations(lately, [[*early, *late, 2.0]])[0, -1] > 4


def test_regression_first_values_are_not_the_raw_second_moment() -> None:
    # deep_rl_zoo merges with delta^2 n in place of delta^2 n_a n_b / n.
    moments = RunningMoments(1, horizon=0)
    for value in (10.0, 12.0):
        moments.update(np.array([value]))
    assert moments.deviation == 1.0


def test_moments_stay_exact_far_from_zero() -> None:
    moments = RunningMoments(2, horizon=0)
    for step in range(1000):
        moments.update(1e8 + np.array([step % 2, 3 + step % 2]))
    np.testing.assert_allclose(moments.deviation, 0.5, rtol=1e-6)


def test_modulation_by_hand() -> None:
    modulator = Modulator(2, max_modulation=5.0, warmup_steps=0, horizon=0)
    # 1, 3, 5, 7 have mean 4 and deviation sqrt(5). The other lane has mean 5 and deviation 0.
    alpha = modulations(modulator, [[1, 3, 5, 7], [5, 5, 5, 5]])
    np.testing.assert_allclose(alpha[:, -1], [1 + 3 / 5**0.5, 1])


def test_modulation_is_clipped_to_its_range_by_law() -> None:
    modulator = Modulator(8, max_modulation=1.5, warmup_steps=0, horizon=0)
    rng = np.random.default_rng(0)
    alpha = np.concatenate([modulator(rng.exponential(size=8)) for _ in range(50)])
    assert alpha.min() == 1.0
    assert alpha.max() == 1.5


def test_regression_error_over_deviation_without_the_mean() -> None:
    # deep_rl_zoo: err / sigma; srl: 1 + err. An error at the mean must not amplify.
    modulator = Modulator(1, max_modulation=5.0, warmup_steps=0, horizon=0)
    assert modulations(modulator, [[90.0, 110.0, 100.0]])[0, -1] == 1.0


def test_adding_a_constant_to_all_errors_changes_nothing_by_law() -> None:
    one, other = (Modulator(4, max_modulation=5.0, warmup_steps=0, horizon=0) for _ in range(2))
    rng = np.random.default_rng(1)
    for _ in range(10):
        error = rng.exponential(size=4)
        np.testing.assert_allclose(one(error), other(3 * error + 20))


def test_lanes_in_one_process_are_as_lanes_in_two_by_law() -> None:
    whole = Modulator(4, max_modulation=5.0, warmup_steps=3, horizon=0)
    halves = [Modulator(2, max_modulation=5.0, warmup_steps=3, horizon=0) for _ in range(2)]
    for error in np.random.default_rng(4).exponential(size=(20, 4)):
        split = [half(part) for half, part in zip(halves, np.split(error, 2), strict=True)]
        np.testing.assert_array_equal(whole(error), np.concatenate(split))


def test_nothing_is_amplified_in_a_lanes_first_steps() -> None:
    modulator = Modulator(1, max_modulation=5.0, warmup_steps=2, horizon=0)
    np.testing.assert_array_equal(modulations(modulator, [[1.0, 50.0, 99.0]])[0, :2], 1)
    assert modulator(np.array([200.0])) > 1


def test_equal_errors_do_not_divide_by_zero() -> None:
    modulator = Modulator(3, max_modulation=5.0, warmup_steps=0, horizon=0)
    assert (modulator(np.full(3, 2.0)) == 1).all()


@pytest.mark.parametrize("num_before", [0, 3])
def test_continues_from_its_saved_state(num_before: int) -> None:
    rng = np.random.default_rng(2)
    moments, other = RunningMoments(4, horizon=0), RunningMoments(4, horizon=0)
    for _ in range(num_before):
        moments.update(rng.normal(size=4))
    other.load_state_dict(moments.state_dict())
    row = rng.normal(size=4)
    moments.update(row)
    other.update(row)
    assert same_tree(moments.state_dict(), other.state_dict())


def test_pooled_moments_are_those_of_all_values_by_definition() -> None:
    values = np.random.default_rng(3).normal([0, 5, -2], [1, 2, 3], size=(30, 3))
    moments, one = RunningMoments(3, horizon=0), RunningMoments(2, horizon=0)
    for row in values:
        moments.update(row)
    one.load_state_dict(pooled_moments(moments.state_dict()))
    np.testing.assert_array_equal(one.count, [values.size] * 2)
    np.testing.assert_allclose(one.mean, values.mean())
    np.testing.assert_allclose(one.deviation, values.std())


def test_pooled_moments_are_taken_over_by_lanes_with_a_horizon() -> None:
    # With the horizon, all four values count as two: 2, 4, 6, 8 have mean 5 and variance 5.
    many, one = RunningMoments(4, horizon=0), RunningMoments(1, horizon=3)
    many.update(np.array([2.0, 4.0, 6.0, 8.0]))
    one.load_state_dict(pooled_moments(many.state_dict()))
    one.update(np.array([8.0]))
    assert (one.count, one.mean) == (3, 6)
    np.testing.assert_allclose(one.deviation**2, (2 * 5 + 3 * 2) / 3)


def test_moments_saved_as_one_lane_are_broadcast_to_all_lanes() -> None:
    # Older run folders hold one state, because the lanes of a process shared their moments.
    moments = RunningMoments(2, horizon=0)
    moments.load_state_dict({"count": 4, "mean": 3.0, "sum_sq": 16.0})
    np.testing.assert_array_equal(moments.deviation, [2.0, 2.0])


def test_rewards_in_units_of_their_mean_by_hand() -> None:
    # The first lane's means are 2, then (2 + 6) / 2 = 4. The second lane has its own.
    scale = RewardScale(2, horizon=10)
    assert scale(np.array([2.0, 0.5])).tolist() == [1, 1]
    assert scale(np.array([6.0, 0.5])).tolist() == [1.5, 1]


def test_the_size_of_rewards_is_lost_by_law() -> None:
    rewards = np.random.default_rng(8).exponential(size=(60, 3))
    small, large = RewardScale(3, horizon=20), RewardScale(3, horizon=20)
    for row in rewards:
        np.testing.assert_allclose(large(1000 * row), small(row))


def test_rewards_that_are_all_zero_stay_so() -> None:
    assert not RewardScale(2, horizon=10)(np.zeros(2)).any()
