"""Random network distillation: the error by definition, and which network is trained."""

from functools import partial

import torch

from agent57.config import NetworkConfig
from agent57.nets.networks import Rnd
from agent57.nets.torso import Trunk


def make() -> Rnd:
    torch.manual_seed(0)
    config = NetworkConfig(feature_size=8, rnd_size=5)
    return Rnd(config, partial(Trunk, config, "vector", (4,)))


def test_the_error_is_the_squared_distance_by_definition() -> None:
    rnd, x = make(), torch.randn(6, 4)
    with torch.no_grad():
        differences = [rnd.predictor(row[None]) - rnd.target(row[None]) for row in x]
        expected = [sum(float(d) ** 2 for d in difference[0]) for difference in differences]
        torch.testing.assert_close(rnd(x), torch.tensor(expected))


def test_only_the_predictor_is_trained() -> None:
    rnd = make()
    rnd(torch.randn(6, 4)).mean().backward()
    assert all(p.grad is not None and p.grad.any() for p in rnd.predictor.parameters())
    assert not any(p.requires_grad for p in rnd.target.parameters())


def test_the_two_networks_start_differently() -> None:
    assert (make()(torch.randn(6, 4)) > 1e-4).all()


def test_regression_error_that_ignores_the_predictor() -> None:
    # np.square(original, trained) writes into its second argument and never subtracts it.
    rnd, x = make(), torch.randn(6, 4)
    before = rnd(x)
    rnd.predictor.load_state_dict(rnd.target.state_dict())
    assert (before > 0).all()
    assert torch.equal(rnd(x), torch.zeros(6))


def test_familiar_states_become_boring() -> None:
    rnd, familiar, strange = make(), torch.randn(16, 4), 3 + torch.randn(16, 4)
    optimiser = torch.optim.Adam(rnd.predictor.parameters(), 1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        rnd(familiar).mean().backward()
        optimiser.step()
    assert rnd(familiar).mean() < 0.2 * rnd(strange).mean()
