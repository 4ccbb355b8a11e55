import pytest
import torch

from agent57.ops.squash import squash, unsquash

EPS = 1e-3


def by_definition(x: torch.Tensor) -> torch.Tensor:
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + EPS * x


def inverse_by_definition(y: torch.Tensor) -> torch.Tensor:
    root = (1 + 4 * EPS * (y.abs() + 1 + EPS)).sqrt()
    return y.sign() * (((root - 1) / (2 * EPS)) ** 2 - 1)


def both_signs(first: float, last: float) -> torch.Tensor:
    size = torch.logspace(first, last, 400, dtype=torch.float64)
    return torch.cat([-size.flip(0), torch.zeros(1, dtype=torch.float64), size])


def test_squash_by_hand() -> None:
    x = torch.tensor([0.0, 3.0, -8.0, 99.0])
    expected = [0.0, (2 - 1) + 0.003, -(3 - 1) - 0.008, (10 - 1) + 0.099]
    torch.testing.assert_close(squash(x, EPS), torch.tensor(expected))


def test_unsquash_by_hand() -> None:
    y = torch.tensor([0.0, 1.003, -2.008, 9.099])
    torch.testing.assert_close(unsquash(y, EPS), torch.tensor([0.0, 3.0, -8.0, 99.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_equal_their_definitions(dtype: torch.dtype) -> None:
    x = both_signs(-1, 6)
    tolerance = {"rtol": 1e-6 if dtype == torch.float32 else 1e-9, "atol": 0.0}
    torch.testing.assert_close(squash(x.to(dtype), EPS).double(), by_definition(x), **tolerance)
    torch.testing.assert_close(
        unsquash(x.to(dtype), EPS).double(), inverse_by_definition(x), **tolerance
    )


def test_small_values_survive_float32() -> None:
    x = both_signs(-8, 7)
    y = squash(x.float(), EPS)
    torch.testing.assert_close(unsquash(y, EPS).double(), x, rtol=2e-6, atol=0.0)


def test_squash_is_odd_and_rising_by_law() -> None:
    y = squash(both_signs(-6, 6), EPS)
    torch.testing.assert_close(y, -y.flip(0))
    assert (y.diff() > 0).all()


@pytest.mark.parametrize("eps", [1e-3, 1e-2, 0.1])
def test_each_inverts_the_other_for_any_epsilon_by_law(eps: float) -> None:
    x = both_signs(-6, 8)
    torch.testing.assert_close(unsquash(squash(x, eps), eps), x, rtol=1e-10, atol=0.0)
    torch.testing.assert_close(squash(unsquash(x, eps), eps), x, rtol=1e-10, atol=0.0)


def test_regression_inverse_without_the_square() -> None:
    # As printed in the paper, h^-1(h(100)) is about 9.
    torch.testing.assert_close(unsquash(squash(torch.tensor(100.0), EPS), EPS), torch.tensor(100.0))


def test_half_precision_is_computed_in_float32() -> None:
    x = torch.tensor([0.011, 1234.5], dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        for fn in (squash, unsquash):
            result = fn(x, EPS)
            assert result.dtype == torch.float32
            torch.testing.assert_close(result, fn(x.float(), EPS))


def test_gradient_at_zero_is_that_of_h() -> None:
    x = torch.zeros(1, requires_grad=True)
    (slope,) = torch.autograd.grad(squash(x, EPS).sum(), x)
    torch.testing.assert_close(slope, torch.tensor([0.5 + EPS]))
