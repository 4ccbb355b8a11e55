"""Bundles: named tensors that travel together."""

import dataclasses

import pytest
import torch

from agent57.types import Batch, Played
from tests.small import random_batch, small_config


def test_map_applies_to_every_tensor() -> None:
    batch = random_batch(small_config())
    doubled = batch.map(lambda x: x + x if x.dtype != torch.bool else x)
    assert torch.equal(doubled.extrinsic, 2 * batch.extrinsic)
    assert torch.equal(doubled.key, 2 * batch.key)
    assert torch.equal(doubled.mask, batch.mask)


def test_to_moves_without_changing() -> None:
    batch = random_batch(small_config())
    moved = batch.to(torch.device("cpu"))
    for field in dataclasses.fields(Batch):
        assert torch.equal(getattr(moved, field.name), getattr(batch, field.name))


def test_bundles_are_frozen_and_named() -> None:
    batch = random_batch(small_config())
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.arm = batch.key  # type: ignore[misc]
    with pytest.raises(TypeError):
        Batch(batch.observation)  # type: ignore[call-arg, misc]


def test_batches_and_steps_use_the_same_words() -> None:
    batch = {field.name for field in dataclasses.fields(Batch)}
    played = {field.name for field in dataclasses.fields(Played)}
    shared = {
        "observation", "previous_action", "previous_extrinsic", "previous_intrinsic", "action",
        "action_prob", "extrinsic", "intrinsic", "arm", "state",
    }  # fmt: skip
    assert batch & played == shared
