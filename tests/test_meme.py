"""MEME's parts, each switched on alone: by hand, by definition and by law."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from agent57.actor import Actor
from agent57.config import Config, ConfigError, LearnerConfig, NetworkConfig
from agent57.learner import Learner
from agent57.nets.torso import Residual, Trunk
from agent57.ops.family import betas, gammas, lane_epsilons
from agent57.ops.meme import (
    cross_arms,
    distillation_loss,
    soft_watkins_traces,
    trust_region,
)
from agent57.ops.policy import epsilon_greedy, sample_actions
from agent57.ops.retrace import Rows, expected_returns
from agent57.ops.td import batch_scale, mixture_size, played_traces, td_scale
from agent57.presets import PRESETS, difference
from agent57.replay.buffer import Replay
from agent57.types import Batch, Windows
from tests.ops.windows import errors_of
from tests.small import (
    CPU,
    changed,
    layout_of,
    make_learner,
    networks_of,
    random_batch,
    same_tree,
    small_config,
    walk,
)

CONFIG = small_config()
LENGTHS = (8, 5, 8, 1)
HEADS = changed(CONFIG, network={"arm_input": "head"})
ALL = changed(
    CONFIG,
    network={"values": "shared", "arm_input": "head"},
    learner={
        "loss": "soft_watkins", "value_loss": "combined", "trust_region": 2.0,
        "cross_mixture": 0.5, "td_scale": "both", "td_scale_batch": True, "weight_decay": 0.05,
        "policy": "distilled",
    },
)  # fmt: skip
PARTS: dict[str, Config] = {
    "trust region": changed(CONFIG, learner={"trust_region": 2.0}),
    "scale of the batch": changed(CONFIG, learner={"td_scale": "both", "td_scale_batch": True}),
    "soft Watkins": changed(CONFIG, learner={"loss": "soft_watkins"}),
    "cross mixture": changed(HEADS, learner={"cross_mixture": 0.5}),
    "shared": changed(CONFIG, network={"values": "shared"}),
    "combined": changed(CONFIG, learner={"value_loss": "combined"}),
    "distilled": changed(CONFIG, learner={"policy": "distilled"}),
    "all": ALL,
}


def loss_of(metrics: dict[str, float]) -> float:
    return sum(v for k, v in metrics.items() if k.startswith("loss/") and "rnd" not in k)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_learns_and_resumes_exactly(part: str) -> None:
    config = PARTS[part]
    learner, other = make_learner(config), make_learner(config)
    for n in range(3):
        metrics = learner.update(random_batch(config, LENGTHS, seed=n)).metrics
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    batch = random_batch(config, LENGTHS, seed=7)
    first, second = learner.update(batch), other.update(batch)
    assert first.metrics == second.metrics
    assert torch.equal(first.priorities, second.priorities)
    assert same_tree(learner.state_dict(), other.state_dict())
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("part", PARTS)
def test_first_priorities_are_the_learners_with_each_part(part: str) -> None:
    """Compare before the first update, without the batch's scale, which actors do not know."""
    config = changed(
        PARTS[part],
        replay={"priority_exponent": 1.0},
        learner={"td_scale_batch": False},
    )
    learner, env = make_learner(config), walk(3, max_steps=19, terminates=True)
    layout = layout_of(config, env)
    actor = Actor(config, env, layout, learner.weights, CPU)
    replay = Replay(config.replay, config.sequence, layout, np.random.default_rng(0))
    for _ in range(60):
        for block in actor.step()[0]:
            replay.add(block)
    batch = replay.sample(60)
    first = replay.state_dict()["weight"][batch.key - replay.live_ids.start]
    torch.testing.assert_close(
        first.float(), learner.update(batch).priorities, rtol=1e-4, atol=1e-5
    )


def test_rows_that_leave_the_trust_region_are_dropped_by_hand() -> None:
    """Rows: inside alpha sigma = 2 x 0.5; outside and leaving; outside and returning; below 0."""
    ahead = torch.tensor([0.9, 1.1, 1.1, -1.1, -1.1])[None, :, None]
    error = torch.tensor([5.0, 0.1, -0.1, -0.1, 0.1])[None, :, None]  # G - Q
    counted = trust_region(ahead, error, torch.full((1, 1, 1), 0.5), alpha=2.0)
    assert counted.flatten().tolist() == [True, False, True, False, True]


def test_regression_a_sign_compared_with_a_raw_difference() -> None:
    # Q is 3 above the target network and 5 above its return: learning brings it back.
    one = torch.ones(1, 1, 1)
    assert trust_region(3 * one, -5 * one, one, alpha=2.0).all()


def with_target_behind(config: Config) -> Learner:
    """Return a learner whose target network differs from its online network."""
    learner = make_learner(config)
    target = {
        name: weight + 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
        for name, weight in learner.state_dict()["target"].items()
    }
    learner.load_state_dict({**learner.state_dict(), "target": target})
    return learner


def test_the_trust_region_bootstraps_from_the_online_network_by_law() -> None:
    """Errors do not depend on the target network; a wide region counts all, a narrow one less."""
    batch = random_batch(CONFIG, LENGTHS)
    plain = make_learner(CONFIG).update(batch)  # online and target networks are equal
    found = {}
    for alpha in (1e9, 1e-9):
        config = changed(CONFIG, learner={"trust_region": alpha})
        found[alpha] = with_target_behind(config).update(batch)
        torch.testing.assert_close(found[alpha].priorities, plain.priorities)
    wide, narrow = found[1e9].metrics, found[1e-9].metrics
    assert wide["loss/extrinsic"] == pytest.approx(plain.metrics["loss/extrinsic"])
    assert wide["trust_region/dropped"] == 0
    assert 0.1 < narrow["trust_region/dropped"] < 0.9
    assert narrow["loss/extrinsic"] < wide["loss/extrinsic"]
    behind = with_target_behind(CONFIG).update(batch)
    assert not torch.allclose(behind.priorities, plain.priorities)


def test_the_scale_of_a_batch_by_hand() -> None:
    summed = torch.tensor([[8.0, 0.0], [2.0, 0.0]])
    assert batch_scale(summed).tolist() == [[2.0, 0.0]]


def test_errors_are_divided_by_the_larger_scale_by_definition() -> None:
    batch = random_batch(CONFIG, (8,) * 4)
    known = torch.full((3, CONFIG.family.arms), 1e-4)
    known[2] = 1.0
    settings: dict[str, dict[str, Any]] = {
        "plain": {"td_scale": "none"},
        "running": {"td_scale": "both"},
        "batch": {"td_scale": "both", "td_scale_batch": True},
    }
    found = {}
    for name, fields in settings.items():
        learner = make_learner(changed(CONFIG, learner=fields))
        learner.load_state_dict({**learner.state_dict(), "td_squares": known})
        found[name] = learner.update(batch)
    # One window of each arm: each has a mean square of 1 by its own scale.
    assert found["batch"].metrics["loss/extrinsic"] == pytest.approx(0.5 * 8, rel=1e-4)
    assert found["running"].metrics["loss/extrinsic"] == pytest.approx(
        found["plain"].metrics["loss/extrinsic"] * 1e4, rel=1e-4
    )
    assert (found["batch"].priorities < found["running"].priorities).all()


def test_regression_deviations_of_parts_that_are_averaged() -> None:
    # The mean of two deviations is not the deviation of the whole: squares are summed first.
    parts = [torch.tensor([[100.0], [1.0]]), torch.tensor([[3.0], [3.0]])]
    assert batch_scale(parts[0] + parts[1]).item() == pytest.approx((103 / 4) ** 0.5)


def test_soft_traces_by_hand() -> None:
    """With best value 10 and kappa = 0.1, a value of 9.2 is good enough, and 8.9 is not.

    Below 0 the tolerance works in the same way: -10.5 is good enough for -10, -11.5 is not.
    """
    mixture = torch.tensor([[10.0, 9.2, 8.9], [-10.0, -10.5, -11.5]])
    greedy = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    for action, expected in ((0, [0.5, 0.5]), (1, [0.5, 0.5]), (2, [0.0, 0.0])):
        trace = soft_watkins_traces(mixture, greedy, torch.full((2,), action), 0.5, 0.1)
        assert trace.tolist() == expected
    # The policy gives half of its weight to the third action, which is never good enough.
    soft = torch.tensor([[0.5, 0.0, 0.5]])
    trace = soft_watkins_traces(mixture[:1], soft, torch.tensor([2]), 0.5, 0.1)
    assert trace.tolist() == [0.25]


def test_soft_traces_in_units_of_errors_by_hand() -> None:
    """Errors of size 2 and kappa 0.25 forgive a lag of 0.5, errors of size 0.4 a lag of 0.1."""
    mixture = torch.tensor([[10.0, 9.6, 9.4], [-10.0, -10.4, -10.05]])
    greedy = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    size = torch.tensor([[2.0], [0.4]])
    for action, expected in ((0, [0.5, 0.5]), (1, [0.5, 0.0]), (2, [0.0, 0.5])):
        trace = soft_watkins_traces(mixture, greedy, torch.full((2,), action), 0.5, 0.25, size)
        assert trace.tolist() == expected


def random_rows(T: int = 7, B: int = 3, A: int = 4) -> dict[str, Tensor]:
    torch.manual_seed(0)
    mask = torch.ones(T, B, dtype=torch.bool)
    mask[5:, 1] = False
    discount = 0.9 * mask.double()
    discount[4, 1] = 0.0
    return {
        "reward": torch.randn(T, B, dtype=torch.float64),
        "discount": discount,
        "mask": mask,
        "value": torch.randn(T + 1, B, A, dtype=torch.float64),
        "policy": torch.randn(T + 1, B, A, dtype=torch.float64).softmax(-1),
        "trace": torch.rand(T, B, dtype=torch.float64),
    }


def soft_watkins(rows: dict[str, Tensor]) -> Tensor:
    steps = Rows(rows["reward"], rows["discount"], rows["mask"])
    return expected_returns(steps, (rows["policy"] * rows["value"]).sum(-1), rows["trace"])


def test_soft_watkins_returns_are_the_sum_of_expected_errors_by_definition() -> None:
    """G_t = E_pi Q(x_t) + sum_k (prod lambda_i) gamma^k (r + gamma E_pi Q' - E_pi Q)."""
    rows = random_rows()
    targets = soft_watkins(rows)
    expected = (rows["policy"] * rows["value"]).sum(-1)
    for b in range(3):
        length = int(rows["mask"][:, b].sum())
        for t in range(length):
            total, weight = expected[t, b].clone(), 1.0
            for k in range(t, length):
                if k > t:
                    weight = weight * rows["discount"][k - 1, b] * rows["trace"][k, b]
                step = rows["reward"][k, b] + rows["discount"][k, b] * expected[k + 1, b]
                total += weight * (step - expected[k, b])
            torch.testing.assert_close(targets[t, b], total)
    assert not targets[~rows["mask"]].any()


def test_without_traces_soft_watkins_is_one_step_by_law() -> None:
    rows = random_rows()
    targets = soft_watkins({**rows, "trace": torch.zeros_like(rows["trace"])})
    expected = (rows["policy"] * rows["value"]).sum(-1)[1:]
    one_step = torch.where(rows["mask"], rows["reward"] + rows["discount"] * expected, 0.0)
    torch.testing.assert_close(targets, one_step)


def test_a_greedy_policy_without_tolerance_is_retrace_by_law() -> None:
    """Both are Watkins' Q(lambda): lambda after a greedy action, 0 after another."""
    rows = random_rows()
    T, B, A = 7, 3, 4
    case = {
        "online": rows["value"][None],
        "target": torch.randn(1, T + 1, B, A, dtype=torch.float64),
        "action": torch.randint(A, (T, B)),
        "action_prob": torch.rand(T, B, dtype=torch.float64) * 0.9 + 0.1,
        "extrinsic": rows["reward"],
        "intrinsic": rows["reward"],
        "discount": rows["mask"].double(),
        "mask": rows["mask"],
        "beta": torch.zeros(B, dtype=torch.float64),
        "gamma": torch.full((B,), 0.9, dtype=torch.float64),
        "values": "joint",
    }
    both = [
        errors_of(**case, loss=LearnerConfig(loss=loss, target_epsilon=0.0, watkins_tolerance=0.0))
        for loss in ("retrace", "soft_watkins")
    ]
    torch.testing.assert_close(*both)


def random_case() -> dict[str, Any]:
    """Values and rows of two networks, with an arm of beta 0.5."""
    rows = random_rows()
    return {
        "online": torch.randn(2, 8, 3, 4, dtype=torch.float64),
        "target": torch.randn(2, 8, 3, 4, dtype=torch.float64),
        "action": torch.randint(4, (7, 3)),
        "action_prob": torch.rand(7, 3, dtype=torch.float64) * 0.9 + 0.1,
        "extrinsic": rows["reward"],
        "intrinsic": torch.rand(7, 3, dtype=torch.float64),
        "discount": rows["mask"].double(),
        "mask": rows["mask"],
        "beta": torch.full((3,), 0.5, dtype=torch.float64),
        "gamma": torch.full((3,), 0.9, dtype=torch.float64),
        "values": "separate",
    }


def errors_by(case: dict[str, Any], size: float = 1.0, **loss: Any) -> Tensor:
    return errors_of(**case, size=size, loss=LearnerConfig(target_epsilon=0.0, **loss))


def test_the_tolerance_is_a_share_of_the_mixture_s_errors_by_definition() -> None:
    """An action passes that lags the best by at most kappa (sigma^e + beta sigma^i)."""
    case = random_case()
    kappa, size = 0.2, 3.0
    mixture = case["online"][0] + 0.5 * case["online"][1]
    expected = torch.empty(7, 3, dtype=torch.float64)
    for t in range(7):
        for b in range(3):
            lag = mixture[t, b].max() - mixture[t, b, case["action"][t, b]]
            expected[t, b] = 0.95 if lag <= kappa * (size + 0.5 * size) else 0.0
    assert 0 < expected.count_nonzero() < expected.numel()
    one = torch.ones(3, dtype=torch.int64)
    names = ("action", "action_prob", "extrinsic", "intrinsic", "discount", "mask")
    windows = Windows(**{name: case[name] for name in names}, arm=one, start=one)
    loss = LearnerConfig(loss="soft_watkins", watkins_unit="error", watkins_tolerance=kappa)
    size = mixture_size(torch.full((2, 2), size), windows, case["beta"], "separate")
    policy = torch.nn.functional.one_hot(mixture.argmax(-1), 4).double()
    trace = played_traces(mixture[:-1], policy[:-1], windows, loss, size)
    torch.testing.assert_close(trace, expected)


def test_without_or_with_every_tolerance_traces_are_watkins_or_peng_s_by_law() -> None:
    """Errors far above the values forgive every action; no tolerance forgives none."""
    case = random_case()
    soft = {"loss": "soft_watkins", "watkins_unit": "error"}
    all_pass = errors_by(case, 1e6, **soft, watkins_tolerance=0.25)
    torch.testing.assert_close(all_pass, errors_by(case, loss="peng"))
    none = {"watkins_tolerance": 0.0}
    by_value = errors_by(case, loss="soft_watkins", **none)
    torch.testing.assert_close(errors_by(case, 1e6, **soft, **none), by_value)
    assert not torch.allclose(all_pass, by_value)


def test_meme_without_its_parts_is_agent57_by_law() -> None:
    """Every part is set to the value at which it does nothing; none is left at its default."""
    greedy = changed(CONFIG, learner={"target_epsilon": 0.0})
    neutral = changed(
        ALL,
        network={"values": "separate", "arm_input": "core"},
        learner={
            "watkins_tolerance": 0.0, "target_epsilon": 0.0, "value_loss": "each",
            "trust_region": 0.0, "cross_mixture": 1.0, "td_scale": "none", "weight_decay": 0.0,
            "policy": "values",
        },
    )  # fmt: skip
    assert neutral.learner.loss == "soft_watkins" != greedy.learner.loss
    learners = [make_learner(config) for config in (greedy, neutral)]
    for seed in range(3):
        batch = random_batch(CONFIG, LENGTHS, seed=seed)
        ours, theirs = (learner.update(batch) for learner in learners)
        torch.testing.assert_close(ours.priorities, theirs.priorities, rtol=1e-4, atol=1e-6)
        for name in ("loss/extrinsic", "loss/intrinsic", "gradient_norm/extrinsic"):
            assert ours.metrics[name] == pytest.approx(theirs.metrics[name], rel=1e-4)


def as_played_by(batch: Batch, arm: int) -> Batch:
    return replace(batch, arm=torch.full_like(batch.arm, arm))


def test_cross_mixture_training_by_definition() -> None:
    """The loss is eta times the played arm's loss, plus the rest times the mean of all arms'."""
    batch = random_batch(HEADS, LENGTHS)
    own = make_learner(HEADS).update(batch)
    every = [
        make_learner(HEADS).update(as_played_by(batch, j)).metrics for j in range(HEADS.family.arms)
    ]
    for eta in (0.5, 0.0, 0.999):
        crossed = make_learner(changed(HEADS, learner={"cross_mixture": eta})).update(batch)
        torch.testing.assert_close(crossed.priorities, own.priorities)
        for name in ("loss/extrinsic", "loss/intrinsic"):
            mean = np.mean([metrics[name] for metrics in every])
            expected = eta * own.metrics[name] + (1 - eta) * mean
            assert crossed.metrics[name] == pytest.approx(expected, rel=1e-4)
        for name in ("value/extrinsic", "batch_share/1", "action_gap/1"):
            assert crossed.metrics[name] == pytest.approx(own.metrics[name], rel=1e-4)


def test_arms_are_drawn_where_they_enter_the_core_by_law() -> None:
    """Only the arm of some windows changes, as if another arm had played them."""
    config = changed(CONFIG, learner={"cross_mixture": 0.0})
    batch = random_batch(CONFIG, LENGTHS)
    drawn = cross_arms(batch.arm, batch.key, 0, 0.0, CONFIG.family.arms)
    assert not torch.equal(drawn, batch.arm)
    crossed = make_learner(config).update(batch)
    expected = make_learner(CONFIG).update(replace(batch, arm=drawn))
    assert crossed.metrics == expected.metrics
    assert torch.equal(crossed.priorities, expected.priorities)


def test_every_arm_learns_its_scale_from_one_batch() -> None:
    batch = as_played_by(random_batch(HEADS, LENGTHS), 1)
    learner = make_learner(changed(HEADS, learner={"cross_mixture": 0.5}))
    learner.update(batch)
    assert (learner.weights()[0]["td_squares"] > 0).all()


def test_arms_that_enter_the_heads_leave_the_state_alone_by_law() -> None:
    networks = networks_of(NetworkConfig(arm_input="head", state_size=7), "vector", (3,))
    T, B = 5, 2
    inputs = (torch.randn(T, B, 3), torch.zeros(T, B, dtype=torch.int64), *torch.randn(2, T, B))
    state = torch.randn(2, 2, B, 7)
    arms = torch.arange(3).expand(B, 3)
    value, after = networks.value(*inputs, arms, state)
    assert value.shape == (2, T, B, 3, 4)
    for arm in range(3):
        one, same = networks.value(*inputs, torch.full((B,), arm), state)
        torch.testing.assert_close(one, value[:, :, :, arm])
        assert torch.equal(same, after)
    assert not torch.allclose(value[:, :, :, 0], value[:, :, :, 1])


def test_shared_values_have_one_torso_and_core() -> None:
    separate = networks_of(NetworkConfig(), "pixels", (1, 84, 84), 255)
    shared = networks_of(NetworkConfig(values="shared"), "pixels", (1, 84, 84), 255)
    assert (shared.num_values, shared.num_cores) == (2, 1)
    assert (separate.num_values, separate.num_cores) == (2, 2)
    sizes = [sum(p.numel() for p in n.value.parameters()) for n in (separate, shared)]
    assert sizes[1] < 0.6 * sizes[0]
    learner = make_learner(PARTS["shared"])
    metrics = learner.update(random_batch(PARTS["shared"])).metrics
    assert {"loss/extrinsic", "loss/intrinsic", "gradient_norm/shared"} <= set(metrics)


def test_the_combined_error_is_that_of_the_mixture_by_law() -> None:
    """Without h, returns are linear: the combined error is delta^e + beta_j delta^i."""
    batch = random_batch(CONFIG, LENGTHS)
    plain = changed(CONFIG, learner={"transform": "identity"})
    combined = changed(plain, learner={"value_loss": "combined"})
    each, mixed = make_learner(plain).update(batch), make_learner(combined).update(batch)
    torch.testing.assert_close(each.priorities, mixed.priorities)
    assert mixed.metrics["td/mean_abs"] == pytest.approx(each.metrics["td/mean_abs"], rel=1e-4)
    assert "loss/combined" in mixed.metrics
    assert {"gradient_norm/extrinsic", "gradient_norm/intrinsic"} <= set(mixed.metrics)


def test_both_heads_learn_from_the_combined_loss() -> None:
    config = changed(PARTS["shared"], learner={"value_loss": "combined"})
    learner = make_learner(config)
    before = {name: p.clone() for name, p in learner.networks.value.named_parameters()}
    learner.update(random_batch(config, LENGTHS))
    for name, parameter in learner.networks.value.named_parameters():
        if "advantage" in name and name.endswith("weight"):
            assert not torch.equal(parameter, before[name]), name


def test_decay_is_decoupled_and_of_the_values_alone() -> None:
    """AdamW: weights shrink by rate x decay in addition to Adam's step."""
    rate, decay = CONFIG.learner.learning_rate, 0.05
    batch = random_batch(CONFIG, LENGTHS)
    plain, decayed = (
        make_learner(changed(CONFIG, learner={"weight_decay": d})) for d in (0.0, decay)
    )
    before = {name: p.clone() for name, p in plain.networks.named_parameters()}
    plain.update(batch)
    decayed.update(batch)
    after = dict(decayed.networks.named_parameters())
    for name, weight in plain.networks.named_parameters():
        shrunk = rate * decay * before[name] if name.startswith("value.") else 0.0
        torch.testing.assert_close(after[name], weight - shrunk, rtol=1e-4, atol=1e-6)


def test_distillation_by_hand() -> None:
    """Greedy action 1 of two, epsilon 0.2: -(0.1 log p_0 + 0.9 log p_1)."""
    policy = torch.tensor([[0.25, 0.75]])
    wanted = epsilon_greedy(torch.tensor([[1.0, 2.0]]), 0.2)
    loss = distillation_loss(policy.log(), policy.log(), wanted, 0.5)
    expected = -(0.1 * np.log(0.25) + 0.9 * np.log(0.75))
    assert loss.item() == pytest.approx(expected)


def test_distillation_is_least_where_the_policies_agree_by_law() -> None:
    value = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    wanted = epsilon_greedy(value, 0.1)
    agreed = wanted.log()
    for seed in range(5):
        noise = torch.randn(agreed.shape, generator=torch.Generator().manual_seed(seed))
        losses = [distillation_loss(x, x, wanted, 9.0) for x in (agreed, agreed + noise)]
        assert (losses[0] < losses[1]).all()


def test_regression_a_limit_of_the_kl_that_is_left_out() -> None:
    """KL(pi_T || pi), not the reverse: rows beyond the limit have neither loss nor gradient."""
    target = torch.tensor([[0.9, 0.1], [0.9, 0.1]])
    logits = torch.tensor([[0.5, 0.5], [0.8, 0.2]]).log().requires_grad_()
    kl = (target * (target / logits.detach().exp()).log()).sum(-1)
    reverse = (logits.detach().exp() * (logits.detach().exp() / target).log()).sum(-1)
    assert kl[0] < 0.45 < reverse[0]
    wanted = epsilon_greedy(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), 1e-4)
    for limit, counts in ((0.45, [True, True]), (0.3, [False, True]), (0.01, [False, False])):
        loss = distillation_loss(logits, target.log(), wanted, limit)
        assert (loss > 0).tolist() == counts
        gradient = torch.autograd.grad(loss.sum(), logits)[0]
        assert gradient.any(-1).tolist() == counts


def test_sampled_actions_and_their_probabilities_by_hand() -> None:
    policy = np.array([[0.2, 0.3, 0.5]] * 4)
    epsilon = np.array([0.0, 0.0, 0.0, 1.0])
    uniform = np.array([[0.9, 0.19], [0.9, 0.2], [0.9, 0.99], [0.0, 0.4]])
    action, prob = sample_actions(policy, epsilon, uniform)
    assert action.tolist() == [0, 1, 2, 1]
    assert prob.tolist() == pytest.approx([0.2, 0.3, 0.5, 1 / 3])


def test_regression_probabilities_that_are_zero_or_of_another_action() -> None:
    """In many draws, actions occur as often as their probabilities say."""
    rng = np.random.default_rng(0)
    policy = np.tile([[0.6, 0.3, 0.1, 0.0]], (20_000, 1))
    action, prob = sample_actions(policy, np.full(20_000, 0.2), rng.random((20_000, 2)))
    assert prob.min() > 0
    for chosen in range(4):
        expected = 0.2 / 4 + 0.8 * policy[0, chosen]
        assert (action == chosen).mean() == pytest.approx(expected, abs=0.01)
        assert prob[action == chosen] == pytest.approx(expected)


def test_the_distilled_policy_acts() -> None:
    config = PARTS["distilled"]
    learner, env = make_learner(config), walk(3)
    actor = Actor(config, env, layout_of(config, env), learner.weights, CPU)
    actor.step()
    decision = actor.player.decide()
    assert decision.outputs.shape == (3, 3, 3)  # Q^e, Q^i and logits of 3 lanes and actions
    policy = (decision.outputs[2] / config.learner.policy_temperature).softmax(-1)
    epsilon = torch.from_numpy(lane_epsilons(0.4, 8.0, np.arange(3), 3))
    mu = epsilon[:, None] / 3 + (1 - epsilon[:, None]) * policy
    played = mu[torch.arange(3), torch.from_numpy(decision.action)]
    torch.testing.assert_close(torch.from_numpy(decision.action_prob), played.float())
    learner.num_updates = 99
    metrics = learner.update(random_batch(config, LENGTHS)).metrics
    assert {"loss/policy", "gradient_norm/policy", "churn/values", "churn/policy"} <= set(metrics)


def test_the_policy_learns_to_be_greedy() -> None:
    config = changed(PARTS["distilled"], learner={"target_period": 1})
    learner, batch = make_learner(config), random_batch(config)
    losses = [learner.update(batch).metrics["loss/policy"] for _ in range(60)]
    assert losses[-1] < 0.6 * losses[0]


def test_churn_is_the_share_of_greedy_actions_that_changed_by_law() -> None:
    """Without a step there is no churn, with a large step some. Measured every 100 updates."""
    batch = random_batch(CONFIG)
    for rate, least, most in ((1e-12, 0.0, 0.0), (0.1, 0.01, 1.0)):
        learner = make_learner(changed(CONFIG, learner={"learning_rate": rate}))
        learner.num_updates = 99
        assert least <= learner.update(batch).metrics["churn/values"] <= most
        assert "churn/values" not in learner.update(batch).metrics


def test_a_new_residual_block_changes_nothing_by_law() -> None:
    block, x = Residual(4, is_normalised=False), torch.randn(2, 4, 5, 5)
    assert torch.equal(block(x), x)
    torch.nn.init.ones_(block.gain)
    assert not torch.equal(block(x), x)


@pytest.mark.parametrize(
    ("kind", "shape"), [("pixels", (1, 84, 84)), ("grid", (2, 7, 7)), ("vector", (5,))]
)
@pytest.mark.parametrize("normalise", ["none", "layer"])
def test_a_residual_torso_sees_any_observation(kind: Any, shape: Any, normalise: Any) -> None:
    config = NetworkConfig(channels=(4, 6, 6), torso="residual", normalise=normalise)
    trunk = Trunk(config, kind, shape, is_normalised=normalise == "layer")
    assert trunk(torch.rand(3, *shape)).shape == (3, trunk.num_features)


def test_a_running_scale_of_all_arms_is_part_of_the_state() -> None:
    learner = make_learner(ALL)
    learner.update(random_batch(ALL, LENGTHS))
    squares = learner.state_dict()["td_squares"]
    assert squares.shape == (2, ALL.family.arms)  # one learned value, and the weights
    assert (td_scale(squares) > 0).all()
    assert betas(ALL.family)[0] == 0


def test_regression_discounts_that_are_reversed() -> None:
    # The arm that exploits looks furthest ahead.
    family = PRESETS["meme"].family
    assert gammas(family)[[0, -1]].tolist() == [0.9997, 0.97]
    assert betas(family)[[0, -1]].tolist() == [0.0, 0.3]
    assert (np.diff(gammas(family)) < 0).all()


def test_the_preset_is_this_difference_from_agent57() -> None:
    found = difference(PRESETS["meme"], PRESETS["agent57"])
    assert {name: ours for name, (ours, _) in found.items()} == {
        "family.arms": 16,
        "family.discounts": "ngu",
        "family.max_gamma": 0.9997,
        "family.min_gamma": 0.97,
        "network.values": "shared",
        "network.arm_input": "head",
        "network.torso": "residual",
        "learner.loss": "soft_watkins",
        "learner.value_loss": "combined",
        "learner.trust_region": 2.0,
        "learner.cross_mixture": 0.5,
        "learner.td_scale": "both",
        "learner.td_scale_batch": True,
        "learner.target_period": 400,
        "learner.learning_rate": 3e-4,
        "learner.novelty_learning_rate": 6e-4,
        "learner.weight_decay": 0.05,
        "learner.policy": "distilled",
        "replay.capacity": 16_000_000,
        "replay.priority_exponent": 0.6,
        "replay.importance_exponent": 0.4,
        "replay.samples_per_insert": 6.0,
        "actor.lanes": 64,
        "curiosity.memory_size": 5000,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learner": {"cross_mixture": 1.5}}, "learner.cross_mixture must lie in"),
        ({"learner": {"trust_region": -1.0}}, "learner.trust_region must not be negative"),
        ({"learner": {"watkins_tolerance": -1.0}}, "learner.watkins_tolerance must not be"),
        ({"learner": {"policy_kl": 0.0}}, "learner.policy_kl must be positive"),
        ({"learner": {"policy_temperature": 0.0}}, "learner.policy_temperature must be"),
        ({"learner": {"weight_decay": -1.0}}, "learner.weight_decay must not be negative"),
        (
            {"network": {"values": "joint"}, "learner": {"value_loss": "combined"}},
            "set network.values to shared",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        changed(CONFIG, **changes)
