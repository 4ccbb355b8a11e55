"""The configuration: impossible settings are refused in one line, and files are read back."""

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from agent57.config import (
    CONFIG_VERSION,
    LATER_FIELDS,
    ActorConfig,
    Config,
    ConfigError,
    ControllerConfig,
    CuriosityConfig,
    EnvConfig,
    FamilyConfig,
    LearnerConfig,
    RunConfig,
    SequenceConfig,
    from_dict,
    to_dict,
)
from agent57.presets import PRESETS, SCALES, make_config
from tests.small import changed

WRONG = [
    ("env", {"frame_skip": 0}, "env.frame_skip must be positive, got 0"),
    ("env", {"frame_size": -84}, "env.frame_size must be positive, got -84"),
    ("env", {"max_episode_frames": 0}, "env.max_episode_frames must be positive"),
    ("env", {"noop_max": -1}, "env.noop_max must not be negative, got -1"),
    ("env", {"sticky_actions": 1.5}, "env.sticky_actions must lie in [0, 1], got 1.5"),
    ("family", {"arms": 0}, "family.arms must be positive, got 0"),
    ("family", {"max_beta": -0.1}, "family.max_beta must not be negative"),
    ("family", {"max_beta": float("inf")}, "family.max_beta must not be negative or infinite"),
    ("family", {"max_beta": float("nan")}, "family.max_beta must not be negative"),
    ("family", {"max_gamma": 1.0}, "family.max_gamma must lie in (0, 1), got 1.0"),
    ("family", {"min_gamma": 0.0}, "family.min_gamma must lie in (0, 1), got 0.0"),
    ("family", {"middle_gamma": 2.0}, "family.middle_gamma must lie in (0, 1), got 2.0"),
    ("family", {"min_gamma": 0.99995}, "family.min_gamma must not exceed family.max_gamma"),
    ("family", {"middle_gamma": 0.95}, "family.middle_gamma must lie between family.min_gamma"),
    ("family", {"max_gamma": 0.995}, "family.middle_gamma must lie between family.min_gamma"),
    ("family", {"betas": (0.0, 0.1)}, "family.betas must hold one value per arm (32), got 2"),
    ("family", {"arms": 2, "betas": (0.1, 0.2)}, "family.betas must start with 0"),
    ("family", {"arms": 2, "betas": (0.0, -1.0)}, "family.betas must not be negative"),
    ("family", {"arms": 2, "gammas": (0.9, 1.0)}, "family.gammas must lie in (0, 1)"),
    ("controller", {"window": 0}, "controller.window must be positive, got 0"),
    ("controller", {"epsilon": -0.5}, "controller.epsilon must lie in [0, 1], got -0.5"),
    ("controller", {"bonus": -1.0}, "controller.bonus must not be negative"),
    ("evaluator_controller", {"window": 0}, "evaluator_controller.window must be positive, got 0"),
    ("evaluator_controller", {"epsilon": 2.0}, "evaluator_controller.epsilon must lie in [0, 1]"),
    ("evaluator_controller", {"bonus": -1.0}, "evaluator_controller.bonus must not be negative"),
    ("curiosity", {"neighbours": 0}, "curiosity.neighbours must be positive"),
    ("curiosity", {"memory_size": 9}, "curiosity.memory_size must be at least"),
    ("curiosity", {"cluster_distance": -1.0}, "curiosity.cluster_distance must not be negative"),
    ("curiosity", {"cluster_distance": float("nan")}, "curiosity.cluster_distance must not be"),
    ("curiosity", {"warmup_steps": -1}, "curiosity.warmup_steps must not be negative, got -1"),
    ("curiosity", {"max_modulation": 0.5}, "curiosity.max_modulation must be at least 1"),
    (
        "curiosity",
        {"error_horizon": 500, "warmup_steps": 500},
        "at least 2 and more than curiosity.warmup_steps (500), got 500",
    ),
    ("curiosity", {"error_horizon": 1, "warmup_steps": 0}, "curiosity.error_horizon must be 0, or"),
    (
        "curiosity",
        {"reward_horizon": -1},
        "curiosity.reward_horizon must not be negative, got -1",
    ),
    (
        "network",
        {"normalise": "layer", "initial_weights": "scaled"},
        "network.normalise layer sets orthogonal weights itself",
    ),
    ("curiosity", {"error_horizon": -5}, "curiosity.error_horizon must be 0, or"),
    ("network", {"forget_bias": float("nan")}, "network.forget_bias must be finite, got nan"),
    ("network", {"head_slope": -0.1}, "network.head_slope must lie in [0, 1], got -0.1"),
    ("network", {"view_gain": 0.0}, "network.view_gain must be positive, got 0.0"),
    ("network", {"state_size": 0}, "network.state_size must be positive, got 0"),
    ("network", {"channels": (32, 64)}, "network.channels must be three"),
    ("network", {"channels": (32, 0, 64)}, "network.channels must be positive sizes"),
    ("network", {"grid_channels": (0,)}, "network.grid_channels must be positive sizes"),
    ("sequence", {"trace_length": 0}, "sequence.trace_length must be positive, got 0"),
    (
        "sequence",
        {"trace_length": 80, "replay_period": 120, "burn_in": 40},
        "sequence.replay_period must be at most sequence.trace_length (80), got 120",
    ),
    ("sequence", {"trace_length": 100}, "a multiple of sequence.replay_period (80), got 100"),
    ("sequence", {"burn_in": -80}, "sequence.burn_in must not be negative"),
    ("sequence", {"burn_in": 30}, "must be a multiple of sequence.replay_period (80), got 190"),
    ("replay", {"capacity": 0}, "replay.capacity must be positive, got 0"),
    ("replay", {"capacity": 319}, "replay.capacity must hold two windows (320 transitions)"),
    ("replay", {"min_windows": 70_000}, "must fit in replay.capacity"),
    ("replay", {"samples_per_insert": 0.0}, "replay.samples_per_insert must be positive"),
    ("replay", {"priority_exponent": 1.1}, "replay.priority_exponent must lie in [0, 1]"),
    ("replay", {"compression": 23}, "replay.compression must be a zstd level from 1 to 22"),
    ("learner", {"batch_size": -1}, "learner.batch_size must be positive, got -1"),
    ("learner", {"learning_rate": float("nan")}, "learner.learning_rate must be positive"),
    ("learner", {"learning_rate": float("inf")}, "learner.learning_rate must be positive"),
    ("learner", {"trace_decay": 1.01}, "learner.trace_decay must lie in [0, 1]"),
    ("learner", {"adam_beta2": 1.0}, "learner.adam_beta2 must lie in [0, 1), got 1.0"),
    ("learner", {"inverse_l2": -1.0}, "learner.inverse_l2 must not be negative"),
    ("learner", {"mixture": "h", "transform": "identity"}, "set learner.transform to h"),
    ("actor", {"lanes": 0}, "actor.lanes must be positive, got 0"),
    ("actor", {"epsilon": 2.0}, "actor.epsilon must lie in [0, 1]"),
    ("actor", {"embedding_versions": -1}, "actor.embedding_versions must not be negative"),
    ("actor", {"epsilon_alpha": -1.0}, "actor.epsilon_alpha must not be negative"),
    ("evaluator", {"lanes": 0}, "evaluator.lanes must be positive"),
    ("evaluator", {"phase_episodes": 0}, "evaluator.phase_episodes must be positive"),
    ("run", {"frames": 0}, "run.frames must be positive, got 0"),
    ("run", {"seed": -1}, "run.seed must not be negative, got -1"),
    ("run", {"threads": -1}, "run.threads must not be negative, got -1"),
]  # fmt: skip


@pytest.mark.parametrize(("section", "fields", "message"), WRONG)
def test_what_cannot_work_is_refused_with_its_field(
    section: str, fields: dict[str, Any], message: str
) -> None:
    config = Config()
    with pytest.raises(ConfigError) as caught:
        replace(config, **{section: replace(getattr(config, section), **fields)})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_middle_discount_is_only_checked_where_it_is_used() -> None:
    FamilyConfig(discounts="ngu", max_gamma=0.995)
    FamilyConfig(arms=2, max_gamma=0.995)
    FamilyConfig(arms=3, max_gamma=0.995, gammas=(0.99, 0.98, 0.97))
    FamilyConfig(max_gamma=0.997)  # equal is allowed


def test_the_h_mixture_needs_values_in_the_space_of_h() -> None:
    assert LearnerConfig(mixture="h").transform == "h"
    LearnerConfig(transform="identity")


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().env.name = "breakout"  # type: ignore[misc]


def test_windows_and_blocks_by_hand() -> None:
    sequence = SequenceConfig(trace_length=80, replay_period=40, burn_in=40)
    assert (sequence.window_length, sequence.blocks_per_window) == (120, 3)
    assert (SequenceConfig().window_length, SequenceConfig().blocks_per_window) == (160, 2)


def test_who_is_curious() -> None:
    assert FamilyConfig().is_curious
    assert not FamilyConfig(max_beta=0.0).is_curious
    assert not FamilyConfig(arms=1).is_curious  # arm 0 has no intrinsic reward
    assert FamilyConfig(arms=2, max_beta=0.0, betas=(0.0, 0.1)).is_curious
    assert not FamilyConfig(arms=2, betas=(0.0, 0.0)).is_curious


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("agent", PRESETS)
def test_every_preset_at_every_scale_survives_json(agent: str, scale: str) -> None:
    config = make_config(agent, scale)
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config


def test_lists_come_back_as_tuples() -> None:
    family = FamilyConfig(arms=2, betas=(0.0, 0.2), gammas=(0.99, 0.9))
    config = replace(Config(), family=family)
    assert from_dict(json.loads(json.dumps(to_dict(config)))).family == family


def test_fields_that_are_unknown_or_missing_are_errors() -> None:
    values = to_dict(Config())
    values["env"]["sped"] = 3
    with pytest.raises(ConfigError, match="unknown config field env.sped"):
        from_dict(values)
    values = to_dict(Config())
    del values["learner"]["batch_size"]
    with pytest.raises(ConfigError, match="config field learner.batch_size is missing"):
        from_dict(values)
    values = to_dict(Config())
    del values["replay"]
    with pytest.raises(ConfigError, match="config field replay is missing"):
        from_dict(values)
    with pytest.raises(ConfigError, match="config field env must be a group"):
        from_dict({**to_dict(Config()), "env": 3})
    values = to_dict(Config())
    values["env"]["actions"] = "all"
    with pytest.raises(ConfigError, match="env.actions must be one of full, minimal, got 'all'"):
        from_dict(values)


@pytest.mark.parametrize("version", [0, CONFIG_VERSION + 1, None, "1", 2.0])
def test_another_version_is_an_error_that_says_what_to_do(version: object) -> None:
    with pytest.raises(ConfigError, match="install the agent57 that wrote it"):
        from_dict({**to_dict(Config()), "version": version})


def test_values_are_checked_when_they_are_read() -> None:
    values = to_dict(Config())
    values["actor"]["lanes"] = 0
    with pytest.raises(ConfigError, match="actor.lanes must be positive"):
        from_dict(values)


def test_sections_do_not_share_their_defaults() -> None:
    first, second = Config(), Config()
    assert first == second
    assert first.controller != first.evaluator_controller
    assert ControllerConfig() == first.controller
    assert CuriosityConfig() == second.curiosity


def test_a_file_of_an_earlier_version_lacks_what_came_later() -> None:
    values = to_dict(Config())
    older = replace(EnvConfig(), raw=True, observe=("image",))  # up to version 8
    for version in sorted(LATER_FIELDS, reverse=True):
        for name in LATER_FIELDS[version]:
            *section, field = name.split(".")
            del (values[section[0]] if section else values)[field]
        env = older if version <= 8 else EnvConfig()
        assert from_dict({**values, "version": version}) == replace(Config(), env=env)
        if LATER_FIELDS[version]:
            with pytest.raises(ConfigError, match="is missing"):
                from_dict({**values, "version": version + 1})


def test_a_file_of_an_earlier_version_has_the_names_of_its_time() -> None:
    values = to_dict(replace(Config(), sequence=SequenceConfig(trace_length=40, replay_period=20)))
    sequence = values["sequence"]
    sequence["trace"], sequence["period"] = (
        sequence.pop("trace_length"),
        sequence.pop("replay_period"),
    )
    assert from_dict({**values, "version": 6}).sequence.trace_length == 40
    with pytest.raises(ConfigError, match="unknown config field sequence.period"):
        from_dict(values)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"cluster": {"actors": 0}}, "cluster.actors must be positive"),
        ({"cluster": {"actors": 3}}, "actor.lanes must be a multiple of cluster.actors"),
        ({"cluster": {"actors": 2, "shards": 3}}, "cluster.shards must not exceed"),
        ({"cluster": {"learners": 3}}, "learner.batch_size must be a multiple of cluster.learners"),
        ({"cluster": {"actor_gpus": 1.5}}, "cluster.actor_gpus must lie in"),
        ({"run": {"runtime": "cluster", "checkpoints_kept": 1}}, "at least 2 on a cluster.* got 1"),
        (
            {"cluster": {"shards": 16}, "replay": {"capacity": 4000, "min_windows": 1}},
            "replay.capacity must hold two windows",
        ),
    ],
)
def test_a_cluster_that_cannot_work_is_one_line(sections: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        changed(changed(Config(), run={"runtime": "cluster"}), **sections)


def test_lanes_are_spread_evenly() -> None:
    assert changed(Config(), run={"runtime": "cluster"}).lanes_per_actor == 16


@pytest.mark.parametrize(
    ("section", "name", "value", "words"),
    [
        ("run", "seed", 1.5, "run.seed must be a whole number, got 1.5"),
        ("run", "seed", True, "run.seed must be a whole number, got True"),
        ("env", "name", 5, "env.name must be text, got 5"),
        ("learner", "learning_rate", "x", "learner.learning_rate must be a number, got 'x'"),
        ("learner", "learning_rate", None, "learner.learning_rate must be a number, got None"),
        ("cluster", "dashboard", 1, "cluster.dashboard must be true or false, got 1"),
        ("family", "betas", 0.5, "family.betas must be a list, got 0.5"),
        ("network", "channels", [1, 2, "x"], "network.channels must be a whole number, got 'x'"),
        (
            "learner",
            "loss",
            ["retrace"],
            "learner.loss must be one of retrace, peng, soft_watkins, n_step",
        ),
    ],
)
def test_values_of_the_wrong_type_are_named(section, name, value, words) -> None:
    values = to_dict(Config())
    values[section][name] = value
    with pytest.raises(ConfigError, match=words):
        from_dict(values)


def test_numbers_beyond_any_array_are_refused_but_for_seeds() -> None:
    with pytest.raises(ConfigError, match=r"actor\.lanes must be below 10\^15"):
        Config(actor=ActorConfig(lanes=10**400))
    values = to_dict(Config())
    values["learner"]["clip_norm"] = 10**400  # a whole number is a number, too
    with pytest.raises(ConfigError, match=r"learner\.clip_norm must be below 10\^15"):
        from_dict(values)
    assert Config(run=RunConfig(seed=10**40)).run.seed == 10**40
