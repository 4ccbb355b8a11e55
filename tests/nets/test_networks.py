"""All networks of an agent, for every kind of observation."""

from dataclasses import replace

import pytest
import torch

from agent57.nets.torso import Kind
from tests.small import networks_of, small_config

CONFIG = small_config().network
TASKS = [
    ("pixels", (1, 84, 84), 255),
    ("pixels", (3, 40, 64), 255),
    ("grid", (3, 7, 7), 10),
    ("grid", (2, 15, 15), 1),
    ("vector", (5,), 1),
]


def observe(kind: Kind, shape: tuple[int, ...], max_value: int, *lead: int) -> torch.Tensor:
    if kind == "vector":
        return torch.randn(*lead, *shape)
    return torch.randint(max_value + 1, (*lead, *shape)).to(torch.uint8)


@pytest.mark.parametrize(("kind", "shape", "max_value"), TASKS)
def test_one_agent_for_any_observation(kind: Kind, shape: tuple[int, ...], max_value: int) -> None:
    torch.manual_seed(0)
    networks = networks_of(CONFIG, kind, shape, max_value)
    prepared = networks.prepare(observe(kind, shape, max_value, 2, 3))
    rows = (torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3), torch.zeros(2, 3))
    value, _ = networks.value(
        prepared, *rows, torch.arange(3), torch.zeros(2, 2, 3, CONFIG.state_size)
    )
    assert value.shape == (2, 2, 3, 4)
    assert networks.embedding is not None
    assert networks.embedding(prepared[0]).shape == (3, CONFIG.embedding_size)
    assert networks.rnd is not None
    assert networks.rnd(prepared[0]).shape == (3,)


def test_values_embedding_and_rnd_share_no_weight() -> None:
    networks = networks_of(CONFIG, "pixels", (1, 84, 84), 255)
    assert networks.embedding is not None
    assert networks.rnd is not None
    parts = [*networks.value.nets, networks.embedding, networks.rnd.predictor, networks.rnd.target]
    pointers = [{p.data_ptr() for p in part.parameters()} for part in parts]
    assert len(set().union(*pointers)) == sum(map(len, pointers))
    assert sum(map(len, pointers)) == len(list(networks.parameters()))


def test_without_a_curious_arm_there_is_no_novelty_network() -> None:
    networks = networks_of(CONFIG, "vector", (5,), num_arms=1)
    assert networks.embedding is None
    assert networks.rnd is None


def test_a_network_without_core_has_no_state() -> None:
    networks = networks_of(replace(CONFIG, core="none"), "vector", (5,))
    assert networks.state_size == 0
    assert not any(isinstance(module, torch.nn.LSTM) for module in networks.modules())
    rows = (torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3), torch.zeros(2, 3))
    value, state = networks.value(
        torch.randn(2, 3, 5), *rows, torch.arange(3), torch.zeros(2, 2, 3, 0)
    )
    assert value.shape == (2, 2, 3, 4)
    assert state.shape == (2, 2, 3, 0)


def test_the_scale_of_errors_among_the_weights_is_passed_over() -> None:
    networks = networks_of(CONFIG, "vector", (5,))
    weights = networks.state_dict()
    networks.load_state_dict({**weights, "td_squares": torch.ones(3, 3)})
    with pytest.raises(RuntimeError, match="Missing key"):
        networks.load_state_dict({name: w for name, w in weights.items() if "rnd" not in name})
    with pytest.raises(RuntimeError, match="Unexpected key"):
        networks.load_state_dict({**weights, "other": torch.ones(1)})
