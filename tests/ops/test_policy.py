import numpy as np
import pytest
import torch

from agent57.ops.policy import choose_actions, epsilon_greedy, mix_values
from agent57.ops.squash import squash, unsquash

EPS = 1e-3


def test_identity_mix_by_hand() -> None:
    value = torch.tensor([[[1.0, 2.0]], [[10.0, -20.0]]])  # [V=2, E=1, A=2]
    weight = torch.tensor([[1.0], [0.3]])
    mixed = mix_values(value, weight, "identity", EPS)
    torch.testing.assert_close(mixed, torch.tensor([[1 + 3.0, 2 - 6.0]]))


def test_h_mix_by_hand() -> None:
    # h(3) = 1.003 and h(8) = 2.008; their mix with beta = 0.5 is h(3 + 4) = sqrt(8) - 1 + 0.007.
    value = torch.tensor([[[1.003]], [[2.008]]])
    weight = torch.tensor([[1.0], [0.5]])
    mixed = mix_values(value, weight, "h", EPS)
    torch.testing.assert_close(mixed, torch.tensor([[8**0.5 - 1 + 0.007]]))


def test_h_mix_by_definition_with_one_weight_per_window() -> None:
    torch.manual_seed(0)
    value, weight = torch.randn(2, 5, 3, 4), torch.rand(2, 1, 3)
    mixed = mix_values(value, weight, "h", EPS)
    for b in range(3):
        real = sum(weight[v, 0, b] * unsquash(value[v, :, b], EPS) for v in range(2))
        torch.testing.assert_close(mixed[:, b], squash(real, EPS))


@pytest.mark.parametrize("kind", ["identity", "h"])
def test_one_network_is_its_own_mixture_by_law(kind: str) -> None:
    value = torch.randn(1, 6, 4)
    torch.testing.assert_close(mix_values(value, torch.ones(1, 6), kind, EPS), value[0])


@pytest.mark.parametrize("kind", ["identity", "h"])
def test_arm_zero_ignores_the_intrinsic_network_by_law(kind: str) -> None:
    value, weight = torch.randn(2, 6, 4), torch.tensor([[1.0], [0.0]]).expand(2, 6)
    torch.testing.assert_close(mix_values(value, weight, kind, EPS), value[0])


def test_epsilon_greedy_by_hand() -> None:
    value = torch.tensor([[0.0, 5.0, 1.0, 2.0], [9.0, 5.0, 1.0, 2.0]])
    expected = torch.tensor([[0.1, 0.7, 0.1, 0.1], [0.7, 0.1, 0.1, 0.1]])
    torch.testing.assert_close(epsilon_greedy(value, 0.4), expected)
    each = epsilon_greedy(value, torch.tensor([0.4, 1.0]))
    torch.testing.assert_close(each, torch.stack([expected[0], torch.full((4,), 0.25)]))


def test_ties_go_to_the_first_action() -> None:
    value = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], dtype=np.float32)
    torch.testing.assert_close(
        epsilon_greedy(torch.from_numpy(value), 0.0),
        torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    )
    action, _ = choose_actions(value, np.zeros(2), np.zeros((2, 2)))
    assert action.tolist() == [1, 0]


def test_probabilities_sum_to_one_and_only_the_order_of_values_counts_by_law() -> None:
    value = torch.randn(7, 3, 5)
    policy = epsilon_greedy(value, 0.01)
    torch.testing.assert_close(policy.sum(-1), torch.ones(7, 3))
    torch.testing.assert_close(epsilon_greedy(100 * value + 3, 0.01), policy)


def test_regression_softmax_target_policy() -> None:
    # A margin of 1e-3 decides the greedy action; a softmax would be nearly uniform.
    policy = epsilon_greedy(torch.tensor([0.0, 1e-3]), 0.01)
    torch.testing.assert_close(policy, torch.tensor([0.005, 0.995]))


def test_half_precision_keeps_the_probabilities() -> None:
    policy = epsilon_greedy(torch.zeros(18, dtype=torch.bfloat16), 0.01)
    torch.testing.assert_close(policy[1], torch.tensor(0.01 / 18))


def test_chosen_actions_by_hand() -> None:
    value = np.array([[0.0, 1.0, 0.0, 0.0]] * 4, dtype=np.float32)
    epsilon = np.full(4, 0.4)
    uniform = np.array([[0.39, 0.99], [0.39, 0.30], [0.40, 0.99], [0.99, 0.0]])
    action, action_prob = choose_actions(value, epsilon, uniform)
    # At random: floor(0.99 * 4) = 3, and floor(0.30 * 4) = 1, which is also the greedy one.
    assert action.tolist() == [3, 1, 1, 1]
    np.testing.assert_allclose(action_prob, [0.1, 0.7, 0.7, 0.7], rtol=1e-6)


def test_frequencies_are_the_probabilities_by_definition() -> None:
    rng = np.random.default_rng(0)
    value = rng.normal(size=(1, 5)).astype(np.float32)
    draws = 200_000
    action, action_prob = choose_actions(
        value.repeat(draws, 0), np.full(draws, 0.3), rng.random((draws, 2))
    )
    policy = epsilon_greedy(torch.from_numpy(value), 0.3)[0].numpy()
    np.testing.assert_allclose(np.bincount(action, minlength=5) / draws, policy, atol=5e-3)
    np.testing.assert_allclose(action_prob, policy[action], rtol=1e-6)


def test_the_largest_draw_stays_within_the_actions() -> None:
    value, below_one = np.zeros((1, 18), np.float32), np.nextafter(1, 0)
    action, _ = choose_actions(value, np.ones(1), np.array([[0.0, below_one]]))
    assert action.tolist() == [17]


def test_regression_behaviour_probability_of_the_random_branch() -> None:
    # The random branch draws the greedy action: its probability is not epsilon / A.
    value = np.array([[1.0, 0.0]], dtype=np.float32)
    _, action_prob = choose_actions(value, np.full(1, 0.5), np.zeros((1, 2)))
    np.testing.assert_allclose(action_prob, [1 - 0.5 * (2 - 1) / 2])


def test_regression_integer_behaviour_probabilities() -> None:
    # A probability that takes the integer type of the action becomes 0.
    value = np.zeros((3, 18), dtype=np.float32)
    _, action_prob = choose_actions(value, np.full(3, 0.05), np.full((3, 2), 0.01))
    assert action_prob.dtype == np.float32
    assert (action_prob > 0).all()


def test_regression_one_coin_for_all_lanes() -> None:
    value = np.array([[1.0, 0.0]] * 3, dtype=np.float32)
    uniform = np.array([[0.1, 0.9]] * 3)
    action, _ = choose_actions(value, np.array([0.4, 0.05, 0.4]), uniform)
    assert action.tolist() == [1, 0, 1]  # each lane by its own epsilon
    uniform[2, 0] = 0.9
    action, _ = choose_actions(value, np.full(3, 0.4), uniform)
    assert action.tolist() == [1, 1, 0]  # and its own draw


def test_exploring_lanes_are_cut_and_greedy_lanes_are_not() -> None:
    # One of 18 actions, which is not greedy, under the target policy with epsilon 0.01.
    target = float(epsilon_greedy(torch.arange(18.0), 0.01)[0])
    trace = {}
    for epsilon in (0.4, 0.4**9):
        value, uniform = np.arange(18.0, dtype=np.float32)[None], np.zeros((1, 2))
        _, action_prob = choose_actions(value, np.full(1, epsilon), uniform)
        trace[epsilon] = 0.95 * min(1.0, target / float(action_prob[0]))
    np.testing.assert_allclose(list(trace.values()), [0.95 * 0.01 / 0.4, 0.95], rtol=1e-5)
