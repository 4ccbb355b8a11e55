"""Every system the paper compares, value by value (its tables; spec 16, 17, 40)."""

from typing import Any

import pytest

from agent57.ops.family import betas, gammas
from agent57.presets import AGENT57, PRESETS, difference

JOINT = {"network.values": "joint"}
SHORT = {"sequence.trace_length": 80, "sequence.replay_period": 40}
UNIFORM = {"controller.kind": "uniform", "evaluator_controller.kind": "exploit"}
NGU_GAMMAS = {"family.discounts": "ngu", "family.max_gamma": 0.997}
ONE_ARM = {"family.arms": 1, "family.max_beta": 0.0, "family.max_gamma": 0.997}

# All settings in which a system differs from Agent57.
SYSTEMS: dict[str, dict[str, Any]] = {
    "agent57": {},
    "agent57-small-trace": SHORT,
    "agent57-h-mixture": {"learner.mixture": "h"},
    "ngu": JOINT | SHORT | UNIFORM | NGU_GAMMAS,
    "ngu-sep-nets": UNIFORM | NGU_GAMMAS,  # trace 160, gammas of NGU: spec 40
    "ngu-bandit": JOINT,  # trace 160, gammas of Agent57: spec 40
    "r2d2-retrace": JOINT | SHORT | UNIFORM | ONE_ARM,
    "r2d2-retrace-long-trace": JOINT | UNIFORM | ONE_ARM,
    "r2d2-retrace-high-gamma": JOINT | SHORT | UNIFORM | ONE_ARM | {"family.max_gamma": 0.9999},
    "r2d2-bandit": JOINT | {"family.max_beta": 0.0},
    "r2d2": JOINT | SHORT | UNIFORM | ONE_ARM | {
        "sequence.burn_in": 40,
        "replay.capacity": 4_000_000,
        "replay.importance_exponent": 0.6,
        "learner.loss": "n_step",
        "learner.adam_epsilon": 1e-3,
        "learner.target_period": 2500,
        "actor.pull_period": 400,
        "actor.epsilon_alpha": 7.0,
    },
}  # fmt: skip


def test_there_is_a_preset_for_every_system() -> None:
    assert set(PRESETS) == {*SYSTEMS, "meme"}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_this_difference_from_agent57(name: str) -> None:
    changed = {k: ours for k, (ours, _) in difference(PRESETS[name], AGENT57).items()}
    expected = {k: v for k, v in SYSTEMS[name].items() if flat_agent57(k) != v}
    assert changed == expected


def flat_agent57(field: str) -> object:
    section, name = field.split(".")
    return getattr(getattr(AGENT57, section), name)


def test_ngu_bandit_and_agent57_differ_in_the_networks_alone() -> None:
    # The ablation that isolates the paper's first contribution.
    assert set(difference(PRESETS["ngu-bandit"], AGENT57)) == {"network.values"}


def test_r2d2_plays_one_greedy_policy_with_its_own_discount() -> None:
    for name in ("r2d2", "r2d2-retrace", "r2d2-retrace-long-trace"):
        family = PRESETS[name].family
        assert betas(family).tolist() == [0.0]
        assert gammas(family).tolist() == [0.997]
        assert not family.is_curious
    assert gammas(PRESETS["r2d2-retrace-high-gamma"].family).tolist() == [0.9999]


def test_r2d2_bandit_has_the_discounts_of_agent57_and_no_curiosity() -> None:
    family = PRESETS["r2d2-bandit"].family
    assert gammas(family).tolist() == gammas(AGENT57.family).tolist()
    assert not betas(family).any()
    assert not family.is_curious


def test_ngu_has_thirty_two_arms_between_its_discounts() -> None:
    for name in ("ngu", "ngu-sep-nets"):
        family = PRESETS[name].family
        assert gammas(family)[[0, 31]].tolist() == [0.997, 0.99]
        assert betas(family).tolist() == betas(AGENT57.family).tolist()


def test_r2d2_is_five_step_double_q_with_burn_in() -> None:
    config = PRESETS["r2d2"]
    assert (config.learner.loss, config.learner.n_step) == ("n_step", 5)
    assert (config.sequence.window_length, config.sequence.blocks_per_window) == (120, 3)
    assert (config.replay.priority_mix, config.replay.priority_exponent) == (0.9, 0.9)
    assert config.learner.learning_rate == 1e-4
