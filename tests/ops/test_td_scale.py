import pytest
import torch

from agent57.ops.td import MIN_SCALE, RATE, follow, summed_squares, td_scale


def test_sums_by_hand() -> None:
    """Two windows of arm 0, one of arm 2; padding does not count."""
    td = torch.tensor([[[1.0, 2.0, 4.0], [3.0, 9.0, 2.0]]])  # [1, 2, 3]
    trained = torch.tensor([[True, True, True], [True, False, True]])
    summed = summed_squares(td, trained, torch.tensor([0, 0, 2]), 3)
    assert summed.tolist() == [[1.0 + 9.0 + 4.0, 0.0, 16.0 + 4.0], [3.0, 0.0, 2.0]]


def test_sums_by_definition() -> None:
    """Compare with a loop over networks and arms."""
    generator = torch.Generator().manual_seed(0)
    td = torch.randn(2, 5, 7, generator=generator)
    trained = torch.rand(5, 7, generator=generator) < 0.6
    arm = torch.randint(0, 4, (7,), generator=generator)
    expected = torch.zeros(3, 4)
    for j in range(4):
        chosen = trained & (arm == j)
        expected[:2, j] = td[:, chosen].square().sum(-1)
        expected[2, j] = chosen.sum()
    torch.testing.assert_close(summed_squares(td, trained, arm, 4), expected)


def test_running_squares_follow_by_hand() -> None:
    """Arm 0 is in the batch with the mean square 6 / 3. Arm 1 is not, and does not change."""
    running = torch.tensor([[1.0, 7.0], [0.5, 0.9]])
    follow(running, torch.tensor([[6.0, 0.0], [3.0, 0.0]]))
    assert running[0].tolist() == pytest.approx([1 + RATE * (6 / 3 - 1), 7.0])
    assert running[1].tolist() == pytest.approx([0.5 + RATE * (1 - 0.5), 0.9])


def test_the_first_batch_of_an_arm_sets_its_scale_by_hand() -> None:
    """At first both scales are 1. Then arm 0 has 8 / 2 = 4, and arm 1, not seen yet, uses it too.
    Then arm 1 has 9, and arm 0 is unchanged.
    """
    running = torch.zeros(2, 2)
    assert td_scale(running).tolist() == [[1.0, 1.0]]
    follow(running, torch.tensor([[8.0, 0.0], [2.0, 0.0]]))
    assert td_scale(running)[0].tolist() == pytest.approx([2.0, 2.0])
    follow(running, torch.tensor([[0.0, 27.0], [0.0, 3.0]]))
    assert td_scale(running)[0].tolist() == pytest.approx([2.0, 3.0])


def test_the_scale_is_a_mean_that_forgets_by_definition() -> None:
    """Compare with a loop over batches whose weights decay by 1 - RATE."""
    means = torch.rand(50, generator=torch.Generator().manual_seed(3))
    running = torch.zeros(2, 1)
    for mean in means:
        follow(running, torch.tensor([[5 * mean], [5.0]]))
    weights = torch.tensor([(1 - RATE) ** (49 - n) for n in range(50)])
    expected = ((weights * means).sum() / weights.sum()).sqrt()
    assert td_scale(running).item() == pytest.approx(expected.item(), rel=1e-4)


def test_shares_of_a_batch_add_up_by_law() -> None:
    generator = torch.Generator().manual_seed(1)
    td = torch.randn(2, 4, 6, generator=generator)
    trained, arm = torch.rand(4, 6, generator=generator) < 0.5, torch.arange(6) % 3
    whole = summed_squares(td, trained, arm, 3)
    shares = [
        summed_squares(td[..., part], trained[:, part], arm[part], 3)
        for part in (slice(0, 2), slice(2, 6))
    ]
    torch.testing.assert_close(sum(shares), whole)


def test_scaled_errors_do_not_know_the_size_of_rewards_by_law() -> None:
    """If errors and their running scale are ten times as large, scaled errors are the same."""
    generator = torch.Generator().manual_seed(2)
    td = torch.randn(1, 6, 8, generator=generator)
    trained, arm = torch.ones(6, 8, dtype=torch.bool), torch.arange(8) % 2
    found = []
    for factor in (torch.ones(8), torch.tensor([1.0, 10.0])[arm]):
        running = torch.zeros(2, 2)
        for _ in range(3):
            follow(running, summed_squares(td * factor, trained, arm, 2))
        found.append(td * factor / td_scale(running)[:, None, arm])
    torch.testing.assert_close(*found)
    assert found[0].square().mean() == pytest.approx(1.0, rel=1e-3)


def test_there_is_a_floor() -> None:
    assert td_scale(torch.tensor([[4.0, 1e-9], [1.0, 1.0]]))[0].tolist() == pytest.approx(
        [2.0, MIN_SCALE]
    )
