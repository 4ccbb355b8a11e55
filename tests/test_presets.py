"""Presets and scales as a way to make configurations. Their values: tests/paper/test_presets.py."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from agent57.commands.train import configured
from agent57.config import Config, ConfigError, Kind
from agent57.defaults import default_config
from agent57.ops.family import gammas, lane_epsilons
from agent57.presets import (
    PRESETS,
    SCALES,
    difference,
    flatten,
    layers,
    make_config,
    options,
)

KINDS = get_args(Kind)
# Settings that scales may change. The algorithm stays: its controllers, losses and curves.
SETTINGS = {
    "family.arms", "family.betas", "family.discounts", "family.max_gamma", "family.middle_gamma",
    "family.min_gamma",
    "network.torso", "network.channels", "network.grid_channels", "network.feature_size",
    "network.state_size",
    "network.head_size", "network.embedding_size", "network.inverse_head_size",
    "network.rnd_size", "network.reward_input", "network.initial_weights", "network.forget_bias",
    "network.view_gain", "network.head_slope", "sequence.trace_length", "sequence.replay_period",
    "sequence.burn_in", "replay.capacity", "replay.min_windows", "replay.samples_per_insert",
    "learner.batch_size", "learner.learning_rate", "learner.adam_epsilon", "learner.target_period",
    "learner.compile", "learner.td_scale", "learner.policy", "learner.precision",
    "controller.window", "evaluator_controller.window",
    "evaluator.lanes", "actor.lanes", "actor.epsilon_alpha", "actor.pull_period",
    "curiosity.memory_size", "curiosity.warmup_steps", "curiosity.kernel_epsilon",
    "curiosity.error_horizon", "curiosity.reward_horizon", "network.normalise",
    "network.vector_input", "network.average_rate", "network.skip", "learner.cross_mixture",
    "run.log_frames",
    "run.agent", "run.scale", "run.kind",
    "run.frames", "cluster.actors",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("agent", PRESETS)
def test_a_scale_leaves_the_algorithm_alone(agent: str, scale: str, kind: Kind) -> None:
    changed = difference(make_config(agent, scale, kind), PRESETS[agent])
    assert set(changed) <= SETTINGS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("agent", PRESETS)
def test_no_kind_of_observation_makes_a_system_curious_or_changes_its_arms(
    agent: str, kind: Kind
) -> None:
    config, preset = make_config(agent, "laptop", kind), PRESETS[agent]
    assert config.family.is_curious == preset.family.is_curious
    assert config.family.arms == min(preset.family.arms, 8)
    assert gammas(config.family)[0] <= gammas(preset.family)[0]


def test_layers_lead_from_the_paper_to_the_defaults() -> None:
    steps = layers("ngu", "laptop", "grid")
    assert [step.name for step in steps] == ["ngu", "scale laptop", "scale laptop, grid"]
    assert steps[0].config == PRESETS["ngu"]
    changed = difference(make_config("ngu", "laptop", "grid"), steps[-1].config)
    assert set(changed) <= {"run.agent", "run.scale", "run.kind", "run.frames"}
    assert all(step.why for step in steps)


@pytest.mark.parametrize("kind", KINDS)
def test_options_make_a_configuration_from_the_defaults(kind: Kind) -> None:
    env = {"pixels": "pong", "grid": "random_coin", "vector": "toy/chain"}[kind]
    config = default_config(env, "ngu", "laptop")
    config = replace(
        config,
        family=replace(config.family, arms=2, betas=(0.0, 0.5)),
        learner=replace(config.learner, batch_size=5),
        run=replace(config.run, seed=7, frames=123, device="cpu", threads=1),
    )
    assert configured(options(config))[0] == config


@pytest.mark.parametrize("field", ["adam_epsilon", "target_period", "loss"])
def test_r2d2_keeps_its_own_learner_on_a_laptop(field: str) -> None:
    ours, theirs = (make_config(agent, "laptop").learner for agent in ("agent57", "r2d2"))
    assert getattr(ours, field) != getattr(theirs, field)


def test_a_laptop_learns_with_these_constants() -> None:
    learner = make_config("agent57", "laptop").learner
    assert (learner.batch_size, learner.target_period, learner.td_scale) == (8, 300, "priority")
    assert learner.learning_rate == pytest.approx(5e-4)
    assert learner.adam_epsilon == pytest.approx(1e-6)


@pytest.mark.parametrize(("kind", "least"), [("pixels", 0.4**5), ("grid", 0.4**2)])
def test_no_lane_of_a_grid_has_a_small_epsilon(kind: Kind, least: float) -> None:
    actor = make_config("agent57", "laptop", kind).actor
    lanes = np.arange(actor.lanes)
    epsilons = lane_epsilons(actor.epsilon, actor.epsilon_alpha, lanes, actor.lanes)
    assert epsilons.min() == pytest.approx(least)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluations_on_a_laptop_play_averaged_networks(kind: Kind) -> None:
    assert make_config("agent57", "laptop", kind).network.average_rate == 0.003
    assert make_config("agent57", "paper", kind).network.average_rate == 0


def test_a_desktop_plays_more_and_learns_less_per_step() -> None:
    desktop, laptop = (make_config("agent57", scale) for scale in ("desktop", "laptop"))
    assert desktop.network.channels == laptop.network.channels
    assert (desktop.actor.lanes, desktop.sequence.trace_length) == (64, 40)
    assert (desktop.replay.capacity, desktop.replay.samples_per_insert) == (1_000_000, 2.0)


@pytest.mark.parametrize("agent", PRESETS)
def test_the_scale_of_the_paper_changes_nothing(agent: str) -> None:
    changed = difference(make_config(agent, "paper"), PRESETS[agent])
    assert set(changed) <= {"run.agent", "run.kind"}


@pytest.mark.parametrize("scale", ["laptop", "tiny"])
def test_windows_keep_their_shape_at_every_scale(scale: str) -> None:
    for agent, preset in PRESETS.items():
        sequence = make_config(agent, scale).sequence
        assert sequence.blocks_per_window == preset.sequence.blocks_per_window
        ratio = preset.sequence.trace_length / sequence.trace_length
        assert sequence.burn_in == preset.sequence.burn_in / ratio


def test_one_arm_stays_one_arm() -> None:
    assert make_config("r2d2", "tiny").family.arms == 1
    assert make_config("agent57", "tiny").family.arms == 4


def test_a_configuration_says_where_it_comes_from() -> None:
    run = make_config("ngu", "tiny").run
    assert (run.agent, run.scale, run.frames) == ("ngu", "tiny", SCALES["tiny"].frames["pixels"])
    assert make_config("agent57", "laptop", "vector").run.frames == 300_000


@pytest.mark.parametrize(("agent", "scale"), [("agnet57", "tiny"), ("agent57", "big")])
def test_unknown_names_are_answered_with_the_known_ones(agent: str, scale: str) -> None:
    with pytest.raises(ConfigError, match="is not one of"):
        make_config(agent, scale)


def test_flattening_names_every_field() -> None:
    flat = flatten(Config())
    assert flat["family.arms"] == 32
    assert flat["evaluator_controller.window"] == 3600
    assert len(flat) > 80


def test_difference_by_hand() -> None:
    assert difference(PRESETS["agent57-h-mixture"], PRESETS["agent57"]) == {
        "learner.mixture": ("h", "identity")
    }
    assert difference(Config(), Config()) == {}
