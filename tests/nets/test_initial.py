"""Initial weights: their spread by hand, the size of signals by law, and where they are used."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import nn

from agent57.config import NetworkConfig
from agent57.nets.initial import OUTPUT_GAIN, draw_orthogonal, draw_scaled
from agent57.nets.torso import Kind
from tests.small import networks_of


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("unit", [nn.ReLU(), nn.LeakyReLU(0.01)])
def test_variances_by_hand(unit: nn.Module) -> None:
    before_relu = nn.Conv2d(8, 200, 3)  # 8 * 9 = 72 inputs: variance 2 / 72
    output = nn.Linear(300, 400)  # variance 1e-4 / 300
    core = nn.LSTM(60, 40)  # 60 + 40 inputs: variance 1 / 100
    draw_scaled(nn.ModuleList([nn.Sequential(before_relu, unit, output), core]))
    assert before_relu.weight.var().item() == pytest.approx(2 / 72, rel=0.05)
    assert output.weight.var().item() == pytest.approx(1e-4 / 300, rel=0.05)
    for weight in (core.weight_ih_l0, core.weight_hh_l0):
        assert weight.var().item() == pytest.approx(1 / 100, rel=0.05)
    # Cut at two deviations of the normal whose cut variance this is: 2 / 0.8796.
    assert output.weight.abs().max().item() == pytest.approx(0.02 / 0.8796 * 300**-0.5, rel=0.01)


def test_biases_are_zero_but_those_of_the_lstm_stay() -> None:
    layer, core = nn.Linear(3, 4), nn.LSTM(3, 4)
    biases = core.bias_ih_l0.clone(), core.bias_hh_l0.clone()
    draw_scaled(nn.ModuleList([layer, core]))
    assert not layer.bias.any()
    assert torch.equal(core.bias_ih_l0, biases[0])
    assert torch.equal(core.bias_hh_l0, biases[1])


def test_signals_keep_their_size_through_any_number_of_layers_by_law() -> None:
    layers = [part for _ in range(6) for part in (nn.Linear(500, 500), nn.ReLU())]
    chain = nn.Sequential(*layers)
    signal = torch.randn(200, 500)

    def kept() -> float:
        with torch.no_grad():
            return (chain(signal).square().mean() / signal.square().mean()).item()

    assert kept() < 1e-2  # PyTorch's own weights
    draw_scaled(chain)
    assert kept() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("kind", ["pixels", "grid", "vector"])
@pytest.mark.parametrize("core", ["lstm", "none"])
def test_values_begin_near_zero_if_asked_and_novelty_networks_as_ever(
    kind: Kind, core: Literal["lstm", "none"]
) -> None:
    shape = {"pixels": (1, 84, 84), "grid": (2, 7, 7), "vector": (5,)}[kind]
    sizes = NetworkConfig(feature_size=64, state_size=64, head_size=64, core=core)
    largest: dict[str, float] = {}
    for initial in ("pytorch", "scaled"):
        torch.manual_seed(0)
        networks = networks_of(replace(sizes, initial_weights=initial), kind, shape, 3, num_arms=2)
        net = networks.value.nets[0]
        prepared = networks.prepare(torch.randint(4, (1, 9, *shape), dtype=torch.uint8))
        value, _ = net(prepared, torch.zeros(1, 9, 4 + 2 + 2), torch.zeros(2, 9, 64))
        largest[initial] = value.abs().max().item()
        layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert all((not layer.bias.any()) == (initial == "scaled") for layer in layers)
        assert networks.rnd is not None
        assert networks.embedding is not None
        assert networks.rnd.target[-1].bias.any()
        assert networks.embedding.project.bias.any()
    assert 0 < largest["scaled"] < min(0.1, largest["pytorch"])


def test_orthogonal_weights_by_hand() -> None:
    hidden, output, core = nn.Linear(6, 4), nn.Linear(4, 2), nn.LSTM(5, 5)
    biases = core.bias_ih_l0.clone(), core.bias_hh_l0.clone()
    draw_orthogonal(nn.ModuleList([nn.Sequential(hidden, nn.ReLU(), output), core]))
    torch.testing.assert_close(hidden.weight @ hidden.weight.T, 2 * torch.eye(4))
    torch.testing.assert_close(output.weight @ output.weight.T, OUTPUT_GAIN**2 * torch.eye(2))
    for weight in (core.weight_ih_l0, core.weight_hh_l0):
        for gate in weight.chunk(4):
            torch.testing.assert_close(gate @ gate.T, torch.eye(5))
    assert not hidden.bias.any()
    assert torch.equal(core.bias_ih_l0, biases[0])
    assert torch.equal(core.bias_hh_l0, biases[1])


@pytest.mark.parametrize("kind", ["pixels", "grid", "vector"])
def test_normalised_networks_do_not_know_the_size_of_what_they_see_by_law(kind: Kind) -> None:
    config = NetworkConfig(
        normalise="layer", channels=(4, 6, 6), feature_size=9, state_size=7, head_size=8
    )
    shape = {"pixels": (1, 84, 84), "grid": (1, 7, 7), "vector": (5,)}[kind]
    net = networks_of(config, kind, shape).value.nets[0]
    seen = torch.rand(2, *shape)
    features = net.dense(net.trunk(seen))
    torch.testing.assert_close(net.dense(net.trunk(100 * seen)), features, atol=1e-3, rtol=1e-3)
