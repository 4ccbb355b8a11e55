"""Counts of the networks against the operations that a real actor and learner make."""

from dataclasses import replace

import pytest
import torch

from agent57.bench.acting import flops_of_a_step
from agent57.bench.effort import bench_config
from agent57.bench.learning import random_batch
from agent57.bench.limits import count_flops
from agent57.envs.make import check_env
from agent57.learner import Learner
from agent57.nets.networks import make_networks
from agent57.planning.sizes import count_sizes
from agent57.presets import make_config

CPU = torch.device("cpu")


def test_a_step_is_counted_as_the_actor_makes_it() -> None:
    config = bench_config("tiny", 1)
    assert count_sizes(config, check_env(config.env)).act_flops == flops_of_a_step("tiny")


@pytest.mark.parametrize("agent", ["agent57", "r2d2-retrace"])
def test_an_update_is_counted_as_the_learner_makes_it(agent: str) -> None:
    config = replace(make_config(agent, "tiny"))
    config = replace(config, learner=replace(config.learner, batch_size=2))
    spec = check_env(config.env)
    networks = make_networks(config, spec)
    learner = Learner(config, networks, CPU)
    batch = random_batch(config, spec, networks.num_cores, networks.state_size)
    counted = count_flops(lambda: learner.update(batch))
    predicted = count_sizes(config, spec).update_flops
    assert predicted == pytest.approx(counted, rel=0.05)


def test_bytes_are_those_of_the_networks() -> None:
    config = make_config("agent57", "tiny")
    spec = check_env(config.env)
    networks, sizes = make_networks(config, spec), count_sizes(config, spec)
    held = sum(x.numel() * x.element_size() for x in networks.state_dict().values())
    assert sizes.weight_bytes == held
    trained = sum(p.numel() for p in networks.parameters() if p.requires_grad)
    assert sizes.trained_bytes == 4 * trained
    assert sizes.batch_bytes == config.learner.batch_size * 21 * 84 * 84
    assert sizes.state_bytes == 2 * 2 * config.network.state_size * 4


def test_activations_grow_with_the_batch_alone() -> None:
    config = make_config("agent57", "tiny")
    spec = check_env(config.env)
    double = replace(config, learner=replace(config.learner, batch_size=32))
    small, large = count_sizes(config, spec), count_sizes(double, spec)
    assert large.activation_bytes == 2 * small.activation_bytes > 0
    assert large.weight_bytes == small.weight_bytes


def test_meme_on_a_laptop_has_no_torso_that_costs_ten_times_as_much() -> None:
    config = make_config("meme", "laptop", "pixels")
    residual = replace(config, network=replace(config.network, torso="residual"))
    spec = check_env(config.env)
    own, other = (count_sizes(each, spec).update_flops for each in (config, residual))
    assert make_config("meme", "paper").network.torso == "residual"
    assert other > 10 * own
