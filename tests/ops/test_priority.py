import pytest
import torch

from agent57.ops.td import importance_weights, sequence_priority

ALL = torch.ones(3, 2, dtype=torch.bool)


def test_priority_by_hand() -> None:
    td_error = torch.tensor([[1.0, 0.0], [-5.0, 0.5], [3.0, -0.5]])
    expected = torch.tensor([0.9 * 5 + 0.1 * (1 + 5 + 3) / 3, 0.9 * 0.5 + 0.1 * (0.5 + 0.5) / 3])
    torch.testing.assert_close(sequence_priority(td_error, ALL, 0.9), expected)


@pytest.mark.parametrize(("mix", "expected"), [(1.0, 5.0), (0.0, 3.0)])
def test_mix_is_between_the_mean_and_the_largest(mix: float, expected: float) -> None:
    td_error = torch.tensor([[1.0], [-5.0], [3.0]])
    torch.testing.assert_close(
        sequence_priority(td_error, ALL[:, :1], mix), torch.tensor([expected])
    )


def test_regression_padding_counts_in_the_priority() -> None:
    td_error, mask = torch.tensor([[1.0], [-5.0]]), torch.ones(2, 1, dtype=torch.bool)
    padded_error = torch.cat([td_error, torch.full((3, 1), torch.nan)])
    padded_mask = torch.cat([mask, torch.zeros(3, 1, dtype=torch.bool)])
    torch.testing.assert_close(
        sequence_priority(padded_error, padded_mask, 0.9), sequence_priority(td_error, mask, 0.9)
    )


def test_a_window_without_valid_rows_has_no_priority() -> None:
    assert sequence_priority(torch.ones(3, 2), ~ALL, 0.9).tolist() == [0.0, 0.0]


def test_regression_signed_errors_cancel() -> None:
    td_error = torch.tensor([[4.0], [-4.0]])
    priority = sequence_priority(td_error, ALL[:2, :1], 0.9)
    torch.testing.assert_close(priority, torch.tensor([4.0]))


def test_importance_weights_by_hand() -> None:
    probability = torch.tensor([0.1, 0.4, 0.2], dtype=torch.float64)
    weights = importance_weights(probability, 0.5)
    torch.testing.assert_close(weights, torch.tensor([1.0, 0.5, 0.5**0.5]))


def test_full_correction_undoes_the_sampling_by_law() -> None:
    probability = torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    product = importance_weights(probability, 1.0) * probability
    torch.testing.assert_close(product, torch.full((3,), 0.1, dtype=torch.float64))


def test_regression_importance_exponent_of_the_paper_is_zero() -> None:
    weights = importance_weights(torch.tensor([1e-9, 0.5], dtype=torch.float64), 0.0)
    assert weights.tolist() == [1.0, 1.0]
    assert weights.dtype == torch.float32
