import pytest
import torch
from torch import Tensor

from agent57.config import LearnerConfig
from agent57.ops.retrace import (
    Rows,
    expected_returns,
    linear_recurrence,
    n_step_targets,
    retrace_targets,
)
from agent57.ops.squash import squash, unsquash
from tests.ops import golden
from tests.ops.windows import errors_of


def random_windows(rows: int = 11, windows: int = 5, actions: int = 4) -> dict[str, Tensor]:
    """Return windows that end by termination, by truncation before padding, or not at all."""
    options = {"dtype": torch.float64}
    mask = torch.ones(rows, windows, dtype=torch.bool)
    discount = torch.full((rows, windows), 0.9, **options)
    mask[6:, 1] = False  # truncated
    mask[4:, 2] = False
    discount[3, 2] = 0.0  # terminated
    discount[-1, 3] = 0.0
    return {
        "reward": torch.randn(rows, windows, **options).masked_fill(~mask, 0.0),
        "discount": discount.masked_fill(~mask, 0.0),
        "mask": mask,
        "value": torch.randn(rows + 1, windows, actions, **options),
        "policy": torch.randn(rows + 1, windows, actions, **options).softmax(-1),
        "action": torch.randint(actions, (rows, windows)).masked_fill(~mask, 0),
        "action_prob": (0.05 + 0.9 * torch.rand(rows, windows, **options)).masked_fill(~mask, 1.0),
    }


def rows_of(windows: dict[str, Tensor]) -> Rows:
    return Rows(windows["reward"], windows["discount"], windows["mask"])


def retrace(windows: dict[str, Tensor], trace_decay: float) -> Tensor:
    others = {name: windows[name] for name in ("value", "policy", "action", "action_prob")}
    return retrace_targets(rows_of(windows), **others, trace_decay=trace_decay)


def retrace_by_definition(windows: dict[str, Tensor], trace_decay: float) -> Tensor:
    """Compute the sum of corrected errors of the paper's appendix C, term by term."""
    reward, discount, mask = windows["reward"], windows["discount"], windows["mask"]
    value, policy = windows["value"], windows["policy"]
    targets = torch.zeros_like(reward)
    for b in range(reward.shape[1]):
        length = int(mask[:, b].sum())
        for s in range(length):
            total, weight = value[s, b, windows["action"][s, b]], 1.0
            for j in range(s, length):
                if j > s:
                    a = windows["action"][j, b]
                    ratio = policy[j, b, a] / windows["action_prob"][j, b]
                    weight = weight * discount[j - 1, b] * trace_decay * min(1.0, float(ratio))
                expected = (policy[j + 1, b] * value[j + 1, b]).sum()
                error = reward[j, b] + discount[j, b] * expected
                total = total + weight * (error - value[j, b, windows["action"][j, b]])
            targets[s, b] = total
    return targets


def n_step_by_definition(windows: dict[str, Tensor], bootstrap: Tensor, n: int) -> Tensor:
    reward, discount, mask = windows["reward"], windows["discount"], windows["mask"]
    targets = torch.zeros_like(reward)
    for b in range(reward.shape[1]):
        length = int(mask[:, b].sum())
        for s in range(length):
            weight = 1.0
            for j in range(s, min(s + n, length)):
                targets[s, b] += weight * reward[j, b]
                weight = weight * discount[j, b]
            targets[s, b] += weight * bootstrap[min(s + n, length), b]
    return targets


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 160])
def test_recurrence_by_definition(rows: int) -> None:
    a, b = torch.randn(rows, 3, dtype=torch.float64), torch.randn(rows, 3, dtype=torch.float64)
    x = linear_recurrence(a, b)
    following = torch.cat([x[1:], torch.zeros(1, 3, dtype=torch.float64)])
    torch.testing.assert_close(x, a + b * following)


def test_retrace_by_hand() -> None:
    true = torch.tensor([[True], [True]])
    targets = retrace_targets(
        Rows(torch.tensor([[1.0], [2.0]]), torch.tensor([[0.9], [0.8]]), true),
        value=torch.tensor([[[0.0, 0.0]], [[10.0, 20.0]], [[30.0, 40.0]]]),
        policy=torch.tensor([[[1.0, 0.0]], [[0.3, 0.7]], [[0.5, 0.5]]]),
        action=torch.tensor([[0], [0]]),
        action_prob=torch.tensor([[1.0], [0.6]]),
        trace_decay=0.5,
    )
    last = 2 + 0.8 * (0.5 * 30 + 0.5 * 40)
    first = 1 + 0.9 * (0.3 * 10 + 0.7 * 20 + 0.5 * (0.3 / 0.6) * (last - 10))
    torch.testing.assert_close(targets, torch.tensor([[first], [last]]))


@pytest.mark.parametrize("trace_decay", [0.0, 0.5, 0.95, 1.0])
def test_retrace_by_definition(trace_decay: float) -> None:
    windows = random_windows()
    targets = retrace(windows, trace_decay)
    torch.testing.assert_close(targets, retrace_by_definition(windows, trace_decay))


@pytest.mark.parametrize("name", ["retrace", "transformed_retrace"])
def test_retrace_equals_rlax(name: str) -> None:
    case = {key: torch.from_numpy(value) for key, value in golden.load(name).items()}
    is_squashed = name == "transformed_retrace"
    targets = retrace_targets(
        Rows(case["reward"], case["discount"], torch.ones_like(case["reward"], dtype=torch.bool)),
        unsquash(case["target"], 1e-3) if is_squashed else case["target"],
        case["policy"],
        case["action"],
        case["action_prob"],
        float(case["lambda"]),
    )
    played = case["online"][:-1].gather(-1, case["action"][..., None])[..., 0]
    td_error = (squash(targets, 1e-3) if is_squashed else targets) - played
    torch.testing.assert_close(td_error, case["td_error"], rtol=1e-8, atol=1e-9)


def test_float32_is_accurate_at_the_papers_window_by_definition() -> None:
    windows = random_windows(rows=160, windows=5, actions=18)
    windows["value"] = 1000 + windows["value"]
    windows["discount"] = windows["discount"] / 0.9 * 0.9999
    single = {key: x.float() if x.is_floating_point() else x for key, x in windows.items()}
    targets = retrace(single, 0.95)
    exact = retrace(windows, 0.95)
    torch.testing.assert_close(targets.double(), exact, rtol=2e-6, atol=2e-4)


def test_no_decay_left_is_one_step_by_law() -> None:
    windows = random_windows()
    expected = (windows["policy"] * windows["value"]).sum(-1)[1:]
    one_step = windows["reward"] + windows["discount"] * expected
    targets = retrace(windows, 0.0)
    torch.testing.assert_close(targets, one_step.where(windows["mask"], 0.0))


def test_on_policy_without_decay_is_monte_carlo_by_law() -> None:
    # One action: pi = mu = 1, so with lambda = 1 every value but the last cancels.
    windows = random_windows(actions=1)
    windows["action_prob"] = torch.ones_like(windows["action_prob"])
    targets = retrace(windows, 1.0)
    bootstrap = windows["value"][..., 0]
    torch.testing.assert_close(targets, n_step_by_definition(windows, bootstrap, n=1000))


def test_fixed_point_of_a_consistent_value_by_law() -> None:
    # If q already satisfies the Bellman equation along the window, every target is q itself.
    windows = random_windows()
    windows["mask"][:] = True
    expected = (windows["policy"] * windows["value"]).sum(-1)[1:]
    played = windows["value"][:-1].gather(-1, windows["action"][..., None])[..., 0]
    windows["reward"] = played - windows["discount"] * expected
    torch.testing.assert_close(retrace(windows, 0.95), played)


def test_linear_in_reward_and_value_together_by_law() -> None:
    one, two = random_windows(), random_windows()
    both = dict(one, reward=one["reward"] + 0.3 * two["reward"])
    both["value"] = one["value"] + 0.3 * two["value"]
    two = dict(one, reward=two["reward"], value=two["value"])
    torch.testing.assert_close(
        retrace(both, 0.95),
        retrace(one, 0.95) + 0.3 * retrace(two, 0.95),
    )


@pytest.mark.parametrize("kind", ["retrace", "n_step"])
def test_regression_unmasked_padding(kind: str) -> None:
    # Padding after the bootstrap observation is never read.
    windows = random_windows()
    poisoned = {key: x.clone() for key, x in windows.items()}
    padding = ~windows["mask"]
    beyond = torch.cat([torch.zeros_like(padding[:1]), padding])  # rows of observations
    beyond &= torch.cat([torch.zeros_like(padding[:1]), beyond[:-1]])
    for name in ("reward", "discount", "action_prob"):
        poisoned[name][padding] = torch.nan
    for name in ("value", "policy"):
        poisoned[name][beyond] = torch.nan
    poisoned["action"][padding] = 3

    def targets(windows: dict[str, Tensor]) -> Tensor:
        if kind == "retrace":
            return retrace(windows, 0.95)
        bootstrap = windows["value"].amax(-1)
        return n_step_targets(rows_of(windows), bootstrap, 5)

    torch.testing.assert_close(targets(poisoned), targets(windows), rtol=0.0, atol=0.0)
    assert (targets(poisoned)[padding] == 0).all()


@pytest.mark.parametrize("length", [1, 4, 10])
def test_padding_equals_a_shorter_window_by_law(length: int) -> None:
    windows = random_windows()
    windows["mask"][:] = True
    padded = {key: x.clone() for key, x in windows.items()}
    padded["mask"][length:] = False
    rows = {key: length + 1 if key in {"value", "policy"} else length for key in windows}
    short = {key: x[: rows[key]] for key, x in windows.items()}
    torch.testing.assert_close(
        retrace(padded, 0.95)[:length],
        retrace(short, 0.95),
    )


def test_truncation_bootstraps_and_termination_does_not() -> None:
    windows = random_windows()
    targets = retrace(windows, 0.95)
    expected = (windows["policy"] * windows["value"]).sum(-1)
    reward = windows["reward"]
    torch.testing.assert_close(targets[5, 1], reward[5, 1] + 0.9 * expected[6, 1])  # truncated
    torch.testing.assert_close(targets[3, 2], reward[3, 2])  # terminated
    torch.testing.assert_close(targets[10, 0], reward[10, 0] + 0.9 * expected[11, 0])  # goes on


def test_regression_trace_not_cut_at_the_end_of_an_episode() -> None:
    windows = random_windows()
    changed = {key: x.clone() for key, x in windows.items()}
    windows["discount"][5, 0] = changed["discount"][5, 0] = 0.0
    changed["reward"][6:, 0] += 100.0
    before = retrace(windows, 0.95)
    after = retrace(changed, 0.95)
    torch.testing.assert_close(after[:6, 0], before[:6, 0])


def test_regression_trace_indexed_with_the_previous_action() -> None:
    # c[1] belongs to a[1]: pi(a[1]) = 0 cuts the trace although pi[1] is sure of a[0].
    targets = retrace_targets(
        Rows(torch.tensor([[0.0], [7.0]]), torch.ones(2, 1), torch.ones(2, 1, dtype=torch.bool)),
        value=torch.zeros(3, 1, 2),
        policy=torch.tensor([[[0.0, 1.0]], [[1.0, 0.0]], [[1.0, 0.0]]]),
        action=torch.tensor([[0], [1]]),
        action_prob=torch.ones(2, 1),
        trace_decay=1.0,
    )
    torch.testing.assert_close(targets, torch.tensor([[0.0], [7.0]]))


def test_the_first_and_the_bootstrap_policy_rows_do_not_trace_by_law() -> None:
    windows = random_windows()
    changed = dict(windows, action_prob=windows["action_prob"].clone())
    changed["action_prob"][0] *= 0.1
    torch.testing.assert_close(retrace(changed, 0.95), retrace(windows, 0.95))


def test_targets_carry_no_gradient() -> None:
    windows = random_windows()
    windows["value"].requires_grad_()
    assert not retrace(windows, 0.95).requires_grad
    bootstrap = windows["value"].amax(-1)
    assert not n_step_targets(rows_of(windows), bootstrap, 3).requires_grad


def test_n_step_by_hand() -> None:
    reward = torch.tensor([[1.0], [2.0], [4.0]])
    bootstrap = torch.tensor([[10.0], [20.0], [30.0], [40.0]])
    everywhere = torch.ones(3, 1, dtype=torch.bool)
    targets = n_step_targets(Rows(reward, torch.full((3, 1), 0.5), everywhere), bootstrap, 2)
    expected = [[1 + 0.5 * 2 + 0.25 * 30], [2 + 0.5 * 4 + 0.25 * 40], [4 + 0.5 * 40]]
    torch.testing.assert_close(targets, torch.tensor(expected))


@pytest.mark.parametrize("n", [1, 2, 5, 100])
def test_n_step_by_definition(n: int) -> None:
    windows = random_windows()
    bootstrap = windows["value"].amax(-1)
    targets = n_step_targets(rows_of(windows), bootstrap, n)
    torch.testing.assert_close(targets, n_step_by_definition(windows, bootstrap, n))


def peng(windows: dict[str, Tensor], trace_decay: float) -> Tensor:
    expected = (windows["policy"] * windows["value"]).sum(-1)
    trace = torch.full_like(windows["reward"], trace_decay)
    return expected_returns(rows_of(windows), expected, trace)


def test_peng_by_hand() -> None:
    everywhere = torch.ones(2, 1, dtype=torch.bool)
    rows = Rows(torch.tensor([[1.0], [2.0]]), torch.tensor([[0.9], [0.8]]), everywhere)
    expected = torch.tensor([[5.0], [10.0], [30.0]])
    targets = expected_returns(rows, expected, torch.full((2, 1), 0.25))
    last = 2 + 0.8 * 30
    first = 1 + 0.9 * (0.75 * 10 + 0.25 * last)
    torch.testing.assert_close(targets, torch.tensor([[first], [last]]))


@pytest.mark.parametrize("trace_decay", [0.0, 0.5, 0.9])
def test_peng_is_the_mean_of_all_n_step_returns_by_definition(trace_decay: float) -> None:
    """Peng's return is sum_n (1 - lambda) lambda^(n-1) G^(n); the longest G gets the rest."""
    windows = random_windows()
    bootstrap = (windows["policy"] * windows["value"]).sum(-1)
    total = torch.zeros_like(windows["reward"])
    longest = len(total)
    for n in range(1, longest):
        weight = (1 - trace_decay) * trace_decay ** (n - 1)
        total += weight * n_step_by_definition(windows, bootstrap, n)
    total += trace_decay ** (longest - 1) * n_step_by_definition(windows, bootstrap, longest)
    torch.testing.assert_close(peng(windows, trace_decay), total)


def test_peng_without_decay_is_monte_carlo_by_law() -> None:
    windows = random_windows()
    bootstrap = (windows["policy"] * windows["value"]).sum(-1)
    torch.testing.assert_close(peng(windows, 1.0), n_step_by_definition(windows, bootstrap, n=1000))


def test_peng_ignores_how_likely_actions_were_and_retrace_does_not_by_law() -> None:
    windows = random_windows()
    value = windows["value"][None]
    case = {
        **{name: windows[name] for name in ("action", "discount", "mask")},
        "extrinsic": windows["reward"],
        "intrinsic": windows["reward"],
        "beta": torch.zeros(5, dtype=torch.float64),
        "gamma": torch.full((5,), 0.9, dtype=torch.float64),
        "values": "joint",
    }
    for loss, is_indifferent in (("peng", True), ("retrace", False)):
        config = LearnerConfig(loss=loss, target_epsilon=1.0)
        likely, unlikely = (
            errors_of(value, value, **case, action_prob=prob, loss=config)
            for prob in (windows["action_prob"], torch.ones_like(windows["action_prob"]))
        )
        assert torch.equal(likely, unlikely) == is_indifferent
