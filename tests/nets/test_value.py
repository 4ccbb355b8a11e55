"""The recurrent duelling networks: duelling by law, time by definition, every input by contract."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import Tensor

from agent57.config import NetworkConfig
from agent57.nets.networks import make_networks
from agent57.nets.value import ValueNets
from agent57.ops.squash import squash
from tests.small import SPEC, networks_of, small_config

T, B, A, J, H = 6, 3, 4, 5, 7
CONFIG = NetworkConfig(
    channels=(4, 6, 6), grid_channels=(3, 4), feature_size=9, state_size=H, head_size=8
)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def make_nets(config: NetworkConfig = CONFIG, squash_epsilon: float = 1e-3) -> ValueNets:
    return networks_of(
        config, "vector", (3,), num_actions=A, num_arms=J, squash_epsilon=squash_epsilon
    ).value


def make_inputs(num_values: int = 2, size: int = H) -> dict[str, Tensor]:
    return {
        "prepared": torch.randn(T, B, 3),
        "previous_action": torch.randint(A, (T, B)),
        "previous_extrinsic": torch.randn(T, B),
        "previous_intrinsic": torch.rand(T, B),
        "arm": torch.arange(B),
        "state": 0.5 * torch.randn(num_values, 2, B, size),
    }


def test_shapes() -> None:
    value, state = make_nets()(**make_inputs())
    assert value.shape == (2, T, B, A)
    assert state.shape == (2, 2, B, H)


def test_a_new_network_remembers() -> None:
    """Forget gates begin at about sigmoid(1) = 0.73, not at sigmoid(0) = 0.5. After eight steps a
    cell keeps 0.73^8 = 0.08 of its content, twenty times as much as 0.5^8 = 0.004.
    """
    for net in make_nets(replace(CONFIG, state_size=512)).nets:
        gates = (net.core.bias_ih_l0 + net.core.bias_hh_l0).view(4, 512)  # the second forgets
        assert torch.sigmoid(gates).mean(1).tolist() == pytest.approx(
            [0.5, 0.731, 0.5, 0.5], abs=0.01
        )


def test_how_much_a_new_network_remembers_is_a_setting() -> None:
    # sigmoid(2) = 0.881; the bias of the hidden part is drawn around 0.
    for net in make_nets(replace(CONFIG, state_size=512, forget_bias=2.0)).nets:
        gates = (net.core.bias_ih_l0 + net.core.bias_hh_l0).view(4, 512)
        assert torch.sigmoid(gates[1]).mean().item() == pytest.approx(0.881, abs=0.01)


@pytest.mark.parametrize("core", ["lstm", "none"])
@pytest.mark.parametrize("initial", ["pytorch", "scaled"])
def test_the_gain_multiplies_what_is_seen_in_the_core_and_nothing_else(
    core: Literal["lstm", "none"], initial: Literal["pytorch", "scaled"]
) -> None:
    entrance = "core.weight_ih_l0" if core == "lstm" else "core.0.weight"
    weights = []
    for gain in (1.0, 10.0):
        torch.manual_seed(1)
        config = replace(CONFIG, core=core, initial_weights=initial, view_gain=gain)
        weights.append(make_nets(config).state_dict())
    plain, amplified = weights
    assert any(name.endswith(entrance) for name in plain)
    for name, weight in plain.items():
        expected = weight.clone()
        if name.endswith(entrance):
            expected[:, : CONFIG.feature_size] *= 10
        assert torch.equal(amplified[name], expected), name


@pytest.mark.parametrize(("slope", "is_learning"), [(0.0, False), (0.01, True)])
def test_heads_below_zero_learn_again_if_they_have_a_slope(slope: float, is_learning: bool) -> None:
    net = make_nets(replace(CONFIG, head_slope=slope)).nets[0]
    for head in (net.advantage, net.value):
        head[0].bias.data.fill_(-100.0)  # as after a long time without any reward
    q, _ = net(torch.randn(T, B, 3), torch.randn(T, B, A + J + 2), torch.zeros(2, B, H))
    q[..., 0].sum().backward()
    for head in (net.advantage, net.value):
        assert bool(head[0].weight.grad.any()) == is_learning
    assert bool(net.core.weight_ih_l0.grad.any()) == is_learning


def test_the_slope_of_the_heads_by_hand() -> None:
    net = make_nets(replace(CONFIG, head_slope=0.25)).nets[0]
    hidden = torch.randn(5, H)
    first, _, last = net.value
    inside = hidden @ first.weight.T + first.bias
    kept = torch.where(inside > 0, inside, 0.25 * inside)
    torch.testing.assert_close(net.value(hidden), kept @ last.weight.T + last.bias)


@pytest.mark.parametrize("core", ["lstm", "none"])
def test_unrolling_is_stepping_with_carried_state_by_definition(
    core: Literal["lstm", "none"],
) -> None:
    nets = make_nets(replace(CONFIG, core=core))
    inputs = make_inputs(size=H if core == "lstm" else 0)
    value, state = nets(**inputs)
    carried, steps = inputs["state"], []
    for t in range(T):
        row = {k: v[t : t + 1] for k, v in inputs.items() if k not in ("arm", "state")}
        q, carried = nets(**row, arm=inputs["arm"], state=carried)
        steps.append(q)
    torch.testing.assert_close(value, torch.cat(steps, dim=1))
    torch.testing.assert_close(state, carried)


def test_advantages_have_mean_zero_by_law() -> None:
    # Q = V + A - mean(A): its mean over the actions is V, whatever the advantages are.
    net = make_nets().nets[0]
    seen = {}
    net.value.register_forward_hook(lambda *call: seen.update(value=call[2]))
    (q,), _ = net(torch.randn(T, B, 3), torch.randn(T, B, A + J + 2), torch.zeros(2, B, H))
    torch.testing.assert_close(q.mean(-1, keepdim=True), seen["value"])
    shifted = net.advantage[2].bias.data
    shifted += 3.0  # the same for every action
    (again,), _ = net(torch.randn(T, B, 3), torch.randn(T, B, A + J + 2), torch.zeros(2, B, H))
    torch.testing.assert_close(again.mean(-1, keepdim=True), seen["value"])


@pytest.mark.parametrize(
    "name",
    ["prepared", "previous_action", "previous_extrinsic", "previous_intrinsic", "arm", "state"],
)
def test_every_input_of_the_paper_changes_both_values(name: str) -> None:
    nets, inputs = make_nets(), make_inputs()
    value, _ = nets(**inputs)
    limit = {"previous_action": A, "arm": J}.get(name)
    other = inputs[name] + 1 if limit is None else (inputs[name] + 1) % limit
    changed, _ = nets(**{**inputs, name: other})
    assert (value - changed).abs().amax(dim=(1, 2, 3)).min() > 1e-4


def test_windows_do_not_see_each_other_by_law() -> None:
    nets, inputs = make_nets(), make_inputs()
    value, _ = nets(**inputs)
    column = {
        k: v[2:] if k == "arm" else v[:, :, 2:] if k == "state" else v[:, 2:]
        for k, v in inputs.items()
    }
    torch.testing.assert_close(nets(**column)[0], value[:, :, 2:])


def test_nothing_is_seen_before_its_time_by_law() -> None:
    nets, inputs = make_nets(), make_inputs()
    value, _ = nets(**inputs)
    later = {**inputs, "prepared": inputs["prepared"].clone()}
    later["prepared"][3:] += 1
    changed, _ = nets(**later)
    assert torch.equal(value[:, :3], changed[:, :3])
    assert not torch.equal(value[:, 3:], changed[:, 3:])


def test_the_two_networks_share_no_weight() -> None:
    nets = make_nets()
    extrinsic, intrinsic = ({p.data_ptr() for p in net.parameters()} for net in nets.nets)
    assert not extrinsic & intrinsic
    value, _ = nets(**make_inputs())
    value[0].square().sum().backward()
    assert all(p.grad is not None for p in nets.nets[0].parameters())
    assert all(p.grad is None or not p.grad.any() for p in nets.nets[1].parameters())


def test_the_two_networks_start_differently() -> None:
    value, _ = make_nets()(**make_inputs())
    assert (value[0] - value[1]).abs().max() > 1e-3


def test_a_joint_network_is_one() -> None:
    value, state = make_nets(replace(CONFIG, values="joint"))(**make_inputs(num_values=1))
    assert value.shape == (1, T, B, A)
    assert state.shape == (1, 2, B, H)


@pytest.mark.parametrize("epsilon", [1e-3, 0.2])
def test_squashed_reward_inputs_by_definition(epsilon: float) -> None:
    raw, inputs = make_nets(squash_epsilon=epsilon), make_inputs()
    squashed = make_nets(replace(CONFIG, reward_input="squash"), epsilon)
    squashed.load_state_dict(raw.state_dict())
    names = ("previous_extrinsic", "previous_intrinsic")
    rescaled = {name: squash(inputs[name], epsilon) for name in names}
    torch.testing.assert_close(squashed(**inputs)[0], raw(**{**inputs, **rescaled})[0])


def test_rewards_that_enter_squashed_are_squashed_as_values_are() -> None:
    config = small_config(network={"reward_input": "squash"}, learner={"squash_epsilon": 0.05})
    assert make_networks(config, SPEC).value.reward_epsilon == 0.05


def test_regression_state_shifted_along_the_wrong_axis() -> None:
    # DI-engine built previous actions along the batch: a window saw another window's action.
    nets, inputs = make_nets(), make_inputs()
    value, _ = nets(**inputs)
    other = {**inputs, "previous_action": inputs["previous_action"].clone()}
    other["previous_action"][:, 1] = (other["previous_action"][:, 1] + 1) % A
    changed, _ = nets(**other)
    assert torch.equal(value[:, :, [0, 2]], changed[:, :, [0, 2]])
    assert not torch.equal(value[:, :, 1], changed[:, :, 1])


def test_with_a_skip_heads_see_the_inputs_of_the_core() -> None:
    for skip, differs in ((True, True), (False, False)):
        nets, inputs = make_nets(replace(CONFIG, skip=skip)), make_inputs()
        for net in nets.nets:
            for weight in net.core.parameters():
                torch.nn.init.zeros_(weight)
        first = nets(**inputs)[0]
        second = nets(**{**inputs, "prepared": inputs["prepared"] + 1})[0]
        assert torch.equal(first, second) != differs
