"""Initial weights: their spread by hand, the size of signals by law, and who draws them."""

import pytest
import torch
from torch import nn

from agent57.config import NetworkConfig
from agent57.nets.initial import draw_scaled
from agent57.nets.networks import Networks


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_variances_by_hand() -> None:
    before_relu = nn.Conv2d(8, 200, 3)  # 8 * 9 = 72 inputs: variance 2 / 72
    output = nn.Linear(300, 400)  # variance 1 / 300
    core = nn.LSTM(60, 40)  # 60 + 40 inputs: variance 1 / 100
    draw_scaled(nn.ModuleList([nn.Sequential(before_relu, nn.ReLU(), output), core]))
    assert before_relu.weight.var().item() == pytest.approx(2 / 72, rel=0.05)
    assert output.weight.var().item() == pytest.approx(1 / 300, rel=0.05)
    for weight in (core.weight_ih_l0, core.weight_hh_l0):
        assert weight.var().item() == pytest.approx(1 / 100, rel=0.05)
    # Cut at two deviations of the normal whose cut variance this is: 2 / 0.8796.
    assert output.weight.abs().max().item() == pytest.approx(2 / 0.8796 * 300**-0.5, rel=0.01)


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


@pytest.mark.parametrize("kind", ["grid", "vector"])
def test_every_network_of_an_agent_begins_so_if_asked(kind: str) -> None:
    shape = (2, 7, 7) if kind == "grid" else (5,)
    for initial, is_zero in (("pytorch", False), ("scaled", True)):
        config = NetworkConfig(initial_weights=initial, features=9, state=7, head=8)
        networks = Networks(config, kind, shape, 3, 4, 2, True, 1e-3)
        layers = [m for m in networks.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert len(layers) > 10
        assert all((not layer.bias.any()) == is_zero for layer in layers)
