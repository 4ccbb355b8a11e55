"""Running moments against numpy, and the modulator by hand."""

import numpy as np
import pytest

from agent57.curiosity.lifelong import Modulator, RunningMoments


def test_moments_of_batches_are_those_of_everything_by_definition() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.normal(5, 3, size=n).astype(np.float32) for n in (1, 7, 2, 40)]
    moments = RunningMoments()
    for n, batch in enumerate(batches, start=1):
        moments.update(batch)
        seen = np.concatenate(batches[:n]).astype(np.float64)
        np.testing.assert_allclose(moments.mean, seen.mean())
        np.testing.assert_allclose(moments.deviation, seen.std(), atol=1e-12)
        assert moments.count == len(seen)


def test_regression_first_batch_is_not_the_raw_second_moment() -> None:
    # deep_rl_zoo merges with delta^2 n in place of delta^2 n_a n_b / n.
    moments = RunningMoments()
    moments.update(np.array([10.0, 12.0]))
    assert moments.deviation == 1.0


def test_moments_stay_exact_far_from_zero() -> None:
    moments = RunningMoments()
    for start in range(0, 1000, 10):
        moments.update(1e8 + np.arange(start, start + 10) % 2)
    np.testing.assert_allclose(moments.deviation, 0.5, rtol=1e-6)


def test_modulation_by_hand() -> None:
    modulator = Modulator(max_modulation=5.0, warmup_steps=0)
    # Of 1, 3, 5, 7 the mean is 4 and the deviation sqrt(5).
    alpha = modulator(np.array([1.0, 3.0, 5.0, 7.0]))
    np.testing.assert_allclose(alpha, [1, 1, 1 + 1 / 5**0.5, 1 + 3 / 5**0.5])


def test_modulation_is_clipped_to_its_range_by_law() -> None:
    modulator = Modulator(max_modulation=1.5, warmup_steps=0)
    rng = np.random.default_rng(0)
    alpha = np.concatenate([modulator(rng.exponential(size=8)) for _ in range(50)])
    assert alpha.min() == 1.0
    assert alpha.max() == 1.5


def test_regression_error_over_deviation_without_the_mean() -> None:
    # deep_rl_zoo: err / sigma; srl: 1 + err. An error at the mean must not amplify.
    modulator = Modulator(max_modulation=5.0, warmup_steps=0)
    modulator(np.array([90.0, 110.0]))
    assert modulator(np.array([100.0])) == 1.0


def test_adding_a_constant_to_all_errors_changes_nothing_by_law() -> None:
    one, other = (Modulator(max_modulation=5.0, warmup_steps=0) for _ in range(2))
    rng = np.random.default_rng(1)
    for _ in range(10):
        error = rng.exponential(size=4)
        np.testing.assert_allclose(one(error), other(3 * error + 20))


def test_nothing_is_amplified_while_warming_up() -> None:
    modulator = Modulator(max_modulation=5.0, warmup_steps=6)
    assert (modulator(np.array([1.0, 50.0, 1.0])) == 1).all()
    assert (modulator(np.array([1.0, 50.0, 1.0])) == 1).all()
    assert modulator(np.array([1.0, 50.0, 1.0])).max() > 1


def test_equal_errors_do_not_divide_by_zero() -> None:
    modulator = Modulator(max_modulation=5.0, warmup_steps=0)
    assert (modulator(np.full(3, 2.0)) == 1).all()


@pytest.mark.parametrize("num_before", [0, 3])
def test_continues_from_its_saved_state(num_before: int) -> None:
    rng = np.random.default_rng(2)
    moments, other = RunningMoments(), RunningMoments()
    for _ in range(num_before):
        moments.update(rng.normal(size=4))
    other.load_state_dict(moments.state_dict())
    batch = rng.normal(size=5)
    moments.update(batch)
    other.update(batch)
    assert moments.state_dict() == other.state_dict()
