from typing import Any

import pytest
import torch
from torch import Tensor

from agent57.config import LearnerConfig
from agent57.ops.squash import squash, unsquash
from agent57.ops.td import mixed_td_error, value_rewards, value_weights
from tests.ops.windows import errors_of

EPS = 1e-3
PLAIN = LearnerConfig(transform="identity")


def random_windows(values: str = "separate") -> dict[str, Any]:
    """Return three windows of T = 8 rows: whole, terminated after 5 rows, truncated after 3."""
    rows, windows, actions, networks = 8, 3, 4, 2 if values == "separate" else 1
    mask = torch.ones(rows, windows, dtype=torch.bool)
    mask[5:, 1] = mask[3:, 2] = False
    discount = mask.double()
    discount[4, 1] = 0.0
    shape = (networks, rows + 1, windows, actions)
    return {
        "online": 3 * torch.randn(shape, dtype=torch.float64),
        "target": 3 * torch.randn(shape, dtype=torch.float64),
        "action": torch.randint(actions, (rows, windows)),
        "action_prob": 0.05 + 0.9 * torch.rand(rows, windows, dtype=torch.float64),
        "extrinsic": torch.randn(rows, windows, dtype=torch.float64),
        "intrinsic": torch.rand(rows, windows, dtype=torch.float64),
        "discount": discount,
        "mask": mask,
        "beta": torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64),
        "gamma": torch.tensor([0.9999, 0.997, 0.99], dtype=torch.float64),
        "values": values,
    }


def td_errors_by_definition(case: dict[str, Any], loss: LearnerConfig) -> Tensor:
    """Compute TD errors one window, network and row at a time."""
    online, target, action = case["online"], case["target"], case["action"]
    is_squashed = loss.transform == "h"
    real = unsquash(target, EPS) if is_squashed else target
    result = torch.zeros(len(online), *action.shape, dtype=torch.float64)
    for b in range(action.shape[1]):
        beta, gamma, length = case["beta"][b], case["gamma"][b], int(case["mask"][:, b].sum())
        mixture = online[0, :, b]
        if case["values"] == "separate" and loss.mixture == "h":
            mixture = squash(unsquash(mixture, EPS) + beta * unsquash(online[1, :, b], EPS), EPS)
        elif case["values"] == "separate":
            mixture = mixture + beta * online[1, :, b]
        best = mixture.argmax(-1)
        for v in range(len(online)):
            reward = case["extrinsic"][:, b] if v == 0 else case["intrinsic"][:, b]
            if case["values"] == "joint":
                reward = reward + beta * case["intrinsic"][:, b]
            q, returns = real[v, :, b], {}
            for t in reversed(range(length)):
                d = gamma * case["discount"][t, b]
                if loss.loss in ("retrace", "peng"):
                    policy = torch.full((4,), loss.target_epsilon / 4, dtype=torch.float64)
                    policy[best[t + 1]] += 1 - loss.target_epsilon
                    bootstrap = (policy * q[t + 1]).sum()
                    if t + 1 < length and loss.loss == "peng":
                        bootstrap += loss.trace_decay * (returns[t + 1] - bootstrap)
                    elif t + 1 < length:
                        a = action[t + 1, b]
                        ratio = policy[a] / case["action_prob"][t + 1, b]
                        trace = loss.trace_decay * min(1.0, float(ratio))
                        bootstrap = bootstrap + trace * (returns[t + 1] - q[t + 1, a])
                    returns[t] = reward[t] + d * bootstrap
                else:
                    end = min(t + loss.n_step, length)
                    returns[t] = q[end, best[end]]
                    for s in reversed(range(t, end)):
                        returns[t] = reward[s] + gamma * case["discount"][s, b] * returns[t]
                learned = squash(returns[t], EPS) if is_squashed else returns[t]
                result[v, t, b] = learned - online[v, t, b, action[t, b]]
    return result


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("values", ["separate", "joint"])
@pytest.mark.parametrize(
    ("transform", "mixture"), [("h", "identity"), ("h", "h"), ("identity", "identity")]
)
@pytest.mark.parametrize("loss", ["retrace", "peng", "n_step"])
def test_td_errors_by_definition(values: str, transform: str, mixture: str, loss: str) -> None:
    case = random_windows(values)
    config = LearnerConfig(loss=loss, mixture=mixture, transform=transform, n_step=3)
    torch.testing.assert_close(
        errors_of(**case, loss=config), td_errors_by_definition(case, config)
    )


def two_rows(loss: LearnerConfig) -> Tensor:
    """Return two rows in which, with beta = 0.5, the mixture prefers action 1 in rows 1 and 2.

    The mixture is (4, 7) and (1, 2) there. Q^e alone and both target networks prefer action 0.
    """
    online_e, online_i = [[1.0, 2.0], [4.0, 3.0], [1.0, 0.0]], [[5.0, 6.0], [0.0, 8.0], [0.0, 4.0]]
    target_e, target_i = (
        [[0.0, 0.0], [20.0, 10.0], [9.0, 7.0]],
        [[0.0, 0.0], [2.0, 1.0], [5.0, 3.0]],
    )
    return errors_of(
        torch.tensor([online_e, online_i])[:, :, None],
        torch.tensor([target_e, target_i])[:, :, None],
        action=torch.tensor([[0], [1]]),
        action_prob=torch.tensor([[0.5], [0.9]]),
        extrinsic=torch.tensor([[1.0], [2.0]]),
        intrinsic=torch.tensor([[30.0], [40.0]]),
        discount=torch.ones(2, 1),
        mask=torch.ones(2, 1, dtype=torch.bool),
        beta=torch.tensor([0.5]),
        gamma=torch.tensor([0.9]),
        loss=loss,
        values="separate",
    )


def test_retrace_errors_by_hand() -> None:
    # The target policy plays action 1 with probability 0.8 + 0.2 / 2.
    loss = LearnerConfig(transform="identity", target_epsilon=0.2, trace_decay=0.5)
    last_e = 2 + 0.9 * (0.1 * 9 + 0.9 * 7)
    last_i = 40 + 0.9 * (0.1 * 5 + 0.9 * 3)
    first_e = 1 + 0.9 * (0.1 * 20 + 0.9 * 10 + 0.5 * 1 * (last_e - 10))
    first_i = 30 + 0.9 * (0.1 * 2 + 0.9 * 1 + 0.5 * 1 * (last_i - 1))
    expected = [[[first_e - 1], [last_e - 3]], [[first_i - 5], [last_i - 8]]]
    torch.testing.assert_close(two_rows(loss), torch.tensor(expected))


def test_double_q_errors_by_hand() -> None:
    # The target networks are read at the online mixture's best action, which is 1 in row 2.
    loss = LearnerConfig(transform="identity", loss="n_step", n_step=2)
    expected = [
        [[1 + 0.9 * 2 + 0.81 * 7 - 1], [2 + 0.9 * 7 - 3]],
        [[30 + 0.9 * 40 + 0.81 * 3 - 5], [40 + 0.9 * 3 - 8]],
    ]
    torch.testing.assert_close(two_rows(loss), torch.tensor(expected))


def test_rewards_and_weights_by_hand() -> None:
    extrinsic, intrinsic = torch.tensor([[1.0, 2.0]]), torch.tensor([[10.0, 20.0]])
    beta = torch.tensor([0.0, 0.3])
    rewards = value_rewards(extrinsic, intrinsic, beta, "separate")
    assert rewards.tolist() == [[[1.0, 2.0]], [[10.0, 20.0]]]  # axis 0: extrinsic, intrinsic
    joint = value_rewards(extrinsic, intrinsic, beta, "joint")
    torch.testing.assert_close(joint, torch.tensor([[[1.0, 2.0 + 0.3 * 20]]]))
    torch.testing.assert_close(value_weights(beta, "separate"), torch.tensor([[1.0, 1], [0, 0.3]]))
    assert value_weights(beta, "joint").tolist() == [[1.0, 1.0]]


def test_mixed_error_by_hand() -> None:
    td_error = torch.tensor([[[1.0, 2.0]], [[10.0, -20.0]]])
    mixed = mixed_td_error(td_error, torch.tensor([[1.0, 1.0], [0.0, 0.3]]))
    torch.testing.assert_close(mixed, torch.tensor([[1.0, 2 - 6.0]]))


def test_mixed_error_of_separate_networks_is_that_of_the_joint_one_by_law() -> None:
    # Without squashing, delta^e + beta delta^i is the TD error of Q^e + beta Q^i on r^e + beta r^i.
    case = random_windows()
    weight = value_weights(case["beta"], "separate")
    joint = dict(case, values="joint")
    for name in ("online", "target"):
        joint[name] = (weight[:, None, :, None] * case[name]).sum(0, keepdim=True)
    torch.testing.assert_close(
        mixed_td_error(errors_of(**case, loss=PLAIN), weight), errors_of(**joint, loss=PLAIN)[0]
    )


def test_regression_mixed_reward_in_both_losses() -> None:
    case = random_windows()
    before = errors_of(**case, loss=PLAIN)
    more = errors_of(**dict(case, extrinsic=case["extrinsic"] + 1), loss=PLAIN)
    torch.testing.assert_close(more[1], before[1])
    assert (more[0] > before[0])[case["mask"]].all()
    more = errors_of(**dict(case, intrinsic=case["intrinsic"] + 1), loss=PLAIN)
    torch.testing.assert_close(more[0], before[0])
    assert (more[1] > before[1])[case["mask"]].all()


def test_regression_extrinsic_and_intrinsic_swapped() -> None:
    case = random_windows()
    case["discount"] = torch.zeros_like(case["discount"])
    case["online"] = torch.zeros_like(case["online"])
    td_error = errors_of(**case, loss=PLAIN)
    torch.testing.assert_close(td_error[0], case["extrinsic"].where(case["mask"], 0.0))
    torch.testing.assert_close(td_error[1], case["intrinsic"].where(case["mask"], 0.0))


def test_regression_target_policy_that_is_soft_or_separate_or_of_the_target_network() -> None:
    # Every value is bootstrapped at action 1, which only the online mixture prefers.
    loss = LearnerConfig(transform="identity", target_epsilon=0.0, trace_decay=0.0)
    expected = [[[1 + 0.9 * 10 - 1], [2 + 0.9 * 7 - 3]], [[30 + 0.9 * 1 - 5], [40 + 0.9 * 3 - 8]]]
    torch.testing.assert_close(two_rows(loss), torch.tensor(expected))


@pytest.mark.parametrize("loss", ["retrace", "peng", "n_step"])
def test_only_the_order_of_the_online_mixture_counts_by_law(loss: str) -> None:
    case = random_windows()
    config = LearnerConfig(loss=loss, transform="identity")
    played = case["online"][:, :-1].gather(-1, case["action"].expand(2, 8, 3)[..., None])[..., 0]
    sharper = dict(case, online=10 * case["online"])
    torch.testing.assert_close(
        (errors_of(**sharper, loss=config) + 10 * played) * case["mask"],
        (errors_of(**case, loss=config) + played) * case["mask"],
    )


def test_regression_two_discounts() -> None:
    # One gamma_j for both networks; the reward is 0, so a target is gamma times the next value.
    case = random_windows()
    for name in ("online", "extrinsic", "intrinsic"):
        case[name] = torch.zeros_like(case[name])
    case["target"] = torch.ones_like(case["target"])
    config = LearnerConfig(transform="identity", trace_decay=0.0)
    expected = case["gamma"] * case["discount"]
    torch.testing.assert_close(errors_of(**case, loss=config), torch.stack([expected, expected]))


def test_regression_returns_summed_in_squashed_space() -> None:
    # A reward of 50 and then a value of 100, with gamma = 1: the target is h(150), wherever the
    # window ends, and a reward of 50 and then termination is h(50).
    case = random_windows()
    case["target"] = squash(torch.full_like(case["target"], 100.0), EPS)
    case["online"] = torch.zeros_like(case["online"])
    case["extrinsic"][:] = 50.0
    case["gamma"][:] = 1.0
    last = errors_of(**case, loss=LearnerConfig())[0, [7, 4, 2], [0, 1, 2]]
    expected = squash(torch.tensor([150.0, 50.0, 150.0], dtype=torch.float64), EPS)
    torch.testing.assert_close(last, expected)


def test_terminated_rows_learn_their_reward_and_truncated_rows_bootstrap() -> None:
    case = random_windows()
    config = LearnerConfig(transform="identity", target_epsilon=0.0)
    td_error = errors_of(**case, loss=config)
    q = case["online"][0, 4, 1, case["action"][4, 1]]
    torch.testing.assert_close(td_error[0, 4, 1], case["extrinsic"][4, 1] - q)
    best = (case["online"][0, 3, 2] + 0.3 * case["online"][1, 3, 2]).argmax()
    target = case["extrinsic"][2, 2] + 0.99 * case["target"][0, 3, 2, best]
    q = case["online"][0, 2, 2, case["action"][2, 2]]
    torch.testing.assert_close(td_error[0, 2, 2], target - q)


def test_padding_has_no_error_and_changes_none_by_law() -> None:
    case = random_windows()
    padding = ~case["mask"]
    changed = {key: x.clone() if isinstance(x, Tensor) else x for key, x in case.items()}
    for name in ("extrinsic", "intrinsic", "discount"):
        changed[name][padding] = 77.0
    changed["action"][padding] = 3
    td_error = errors_of(**changed, loss=LearnerConfig())
    assert (td_error[:, padding] == 0).all()
    torch.testing.assert_close(td_error, errors_of(**case, loss=LearnerConfig()))


@pytest.mark.parametrize("loss", ["retrace", "peng", "n_step"])
def test_regression_gradient_through_the_targets(loss: str) -> None:
    case = random_windows()
    case["online"].requires_grad_()
    case["target"].requires_grad_()
    errors_of(**case, loss=LearnerConfig(loss=loss)).sum().backward()
    assert case["target"].grad is None
    expected = torch.zeros_like(case["online"])
    index = case["action"].expand(2, 8, 3)[..., None]
    expected[:, :-1].scatter_(-1, index, -case["mask"].double().expand(2, 8, 3)[..., None])
    torch.testing.assert_close(case["online"].grad, expected)


def test_arm_zero_learns_extrinsic_values_without_the_intrinsic_network_by_law() -> None:
    case = random_windows()
    changed = dict(case, online=case["online"].clone(), target=case["target"].clone())
    changed["online"][1] += torch.randn_like(changed["online"][1])
    changed["target"][1] -= 5
    before, after = (errors_of(**c, loss=LearnerConfig()) for c in (case, changed))
    torch.testing.assert_close(after[0, :, 0], before[0, :, 0])  # window 0 has beta = 0
    assert not torch.equal(after[1, :, 0], before[1, :, 0])


def test_half_precision_values_are_learned_in_float32() -> None:
    case = random_windows()
    single = {k: x.float() if isinstance(x, Tensor) and x.is_floating_point() else x
              for k, x in case.items()}  # fmt: skip
    half = dict(single, online=single["online"].bfloat16(), target=single["target"].bfloat16())
    upcast = dict(single, online=half["online"].float(), target=half["target"].float())
    td_error = errors_of(**half, loss=LearnerConfig())
    assert td_error.dtype == torch.float32
    torch.testing.assert_close(td_error, errors_of(**upcast, loss=LearnerConfig()))
