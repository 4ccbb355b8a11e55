"""Normalised vectors: moments against numpy, and moments that are published with the weights."""

import numpy as np
import pytest
import torch

from agent57.nets.standard import LIMIT, MAX_BATCHES, Standard, moments, pooled
from tests.small import SPEC, changed, make_learner, random_batch, small_config


def test_nothing_is_changed_before_the_first_batch() -> None:
    vector = torch.tensor([[100.0, -3.0]])
    assert torch.equal(Standard(2)(vector), vector)


def test_moments_are_of_the_rows_in_the_mask_by_hand() -> None:
    vector = torch.tensor([[[1.0, 5.0], [9.0, 9.0]], [[3.0, 5.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, False], [True, False]])
    assert moments(vector, mask).tolist() == [[2, 2], [2, 5], [1, 0]]


def test_parts_make_a_whole_by_law() -> None:
    vector, mask = torch.randn(6, 8, 3) * 4 + 1, torch.rand(6, 8) < 0.7
    parts = torch.stack([moments(vector[:, :3], mask[:, :3]), moments(vector[:, 3:], mask[:, 3:])])
    torch.testing.assert_close(pooled(parts), moments(vector, mask))


def test_the_first_batches_count_alike_by_definition() -> None:
    batches = torch.from_numpy(np.random.default_rng(0).normal(50, 3, (20, 4, 5, 2))).float()
    standard = Standard(2)
    for batch in batches:
        standard.follow(moments(batch, torch.ones(4, 5, dtype=torch.bool)))
    seen = batches.reshape(-1, 2)
    torch.testing.assert_close(standard.mean, seen.mean(0))
    torch.testing.assert_close(standard.variance, seen.var(0, correction=0))
    torch.testing.assert_close(standard(seen).mean(0), torch.zeros(2), atol=1e-4, rtol=0)


def test_old_batches_are_forgotten() -> None:
    standard = Standard(1)
    for value in [0.0] * MAX_BATCHES + [1.0] * 5 * MAX_BATCHES:
        standard.follow(torch.tensor([[1.0], [value], [0.0]]))
    assert standard.mean.item() == pytest.approx(1, abs=0.01)


def test_a_constant_coordinate_is_bounded_when_it_changes() -> None:
    standard = Standard(1)
    standard.follow(torch.tensor([[10.0], [3.0], [0.0]]))
    assert standard(torch.tensor([[3.0], [4.0]])).tolist() == [[0], [LIMIT]]


def test_a_batch_without_rows_changes_no_moments() -> None:
    standard = Standard(2)
    standard.follow(moments(torch.zeros(2, 2, 2), torch.zeros(2, 2, dtype=torch.bool)))
    assert standard.num_batches == 0


def test_the_learner_publishes_the_moments_of_what_it_learned_from() -> None:
    config = changed(small_config(), network={"vector_input": "standard"})
    learner, batch = make_learner(config), random_batch(config)
    learner.update(batch)
    weights, _ = learner.weights()
    valid = batch.observation[:-1][batch.mask]
    assert valid.shape[-1:] == SPEC.observation_shape
    torch.testing.assert_close(weights["standard.mean"], valid.mean(0))
    torch.testing.assert_close(weights["standard.variance"], valid.var(0, correction=0))
