"""The experiments: every run has a valid configuration, and criteria are checked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from agent57.config import Config
from agent57.defaults import default_config
from agent57.envs.toy import TOYS, Discounting
from agent57.experiments.catalogue import EXPERIMENTS
from agent57.experiments.claims import (
    DISCOUNT,
    EXPLORATION_BANDIT,
    IMPATIENT,
    PATIENT_GAMMA,
)
from agent57.experiments.experiment import Verdict
from agent57.ops.family import gammas
from agent57.presets import PRESETS, difference
from tests.experiments.made_up import outcome


def config_of(name: str, label: str, seed: int = 0) -> Config:
    return EXPERIMENTS[name].config(label, seed, frames=1000)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_run_is_a_valid_configuration(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for label, contestant in experiment.contestants.items():
        config = config_of(name, label, seed=2)
        assert (config.run.agent, config.run.seed) == (contestant.agent, 2)
        assert config.env.name == experiment.task(label)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_both_budgets_and_a_contrast_or_a_reference(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert set(experiment.budgets) == {"minutes", "full"}
    assert experiment.budgets["minutes"].frames <= experiment.budgets["full"].frames
    assert len(experiment.contestants) > 1 or "random" in experiment.lines


@pytest.mark.parametrize("name", ["pong", "key-corridor", "memory"])
def test_the_subject_of_a_claim_has_the_default_settings_of_its_task(name: str) -> None:
    experiment = EXPERIMENTS[name]
    changed = difference(config_of(name, experiment.subject), default_config(experiment.env))
    assert set(changed) <= {"run.frames"}


def judged(name: str, **scores: float) -> list[Verdict]:
    """Return the verdicts on scores, given by contestant."""
    experiment = EXPERIMENTS[name]
    labels = list(experiment.contestants)
    results = {
        label: [outcome(label, score=score, evaluator=score)]
        for label, score in zip(labels, scores.values(), strict=True)
    }
    return [criterion.judge(results) for criterion in experiment.criteria]


def test_pong_is_learned_from_18_on() -> None:
    assert [v.is_met for v in judged("pong", agent57=18.0)] == [True, True]
    assert [v.is_met for v in judged("pong", agent57=17.9)] == [False, True]


def test_pong_is_learned_within_three_hours() -> None:
    (_, in_time) = EXPERIMENTS["pong"].criteria
    assert in_time.judge({"agent57": [outcome(seconds=10_800.0)]}).is_met
    assert not in_time.judge({"agent57": [outcome(seconds=10_801.0)]}).is_met


def test_the_key_corridor_needs_agent57_to_reach_it_and_r2d2_not_to() -> None:
    assert [v.is_met for v in judged("key-corridor", agent57=0.8, r2d2=0.0)] == [True, True]
    assert [v.is_met for v in judged("key-corridor", agent57=0.7, r2d2=0.3)] == [False, False]


def test_memory_needs_recurrence_and_a_trace() -> None:
    met = judged("memory", agent57=0.95, short=0.5, without=0.5)
    assert [v.is_met for v in met] == [True, True, True]
    not_met = judged("memory", agent57=0.85, short=0.9, without=0.9)
    assert [v.is_met for v in not_met] == [False, False, False]


def test_the_contrasts_of_memory_differ_in_what_they_are_called_after() -> None:
    ours = config_of("memory", "agent57")
    short = config_of("memory", "trace of 4 steps")
    assert short.sequence.trace_length == short.sequence.replay_period == 4
    # Rows per update are equal, so the number of updates is equal.
    assert short.learner.batch_size * 4 == ours.learner.batch_size * ours.sequence.trace_length
    per_step = [c.replay.samples_per_insert / c.sequence.replay_period for c in (ours, short)]
    assert ours.network.core == "lstm"
    assert config_of("memory", "no recurrence").network.core == "none"
    assert per_step[1] / short.learner.batch_size <= per_step[0] / ours.learner.batch_size


def test_one_arm_of_agent57_is_patient_enough_for_the_last_chain_and_r2d2_is_not() -> None:
    curve = gammas(config_of("discount", "agent57").family)
    assert (curve > PATIENT_GAMMA).sum() == 1
    assert len(curve) == 8
    worth = [
        p * PATIENT_GAMMA ** (d - 1)
        for p, d in zip(Discounting.pays, Discounting.delays, strict=True)
    ]
    assert np.isclose(worth[1], worth[2])
    assert gammas(config_of("discount", IMPATIENT).family).tolist() == [0.997]


def test_discount_is_judged_by_return_and_by_plays() -> None:
    arms = ((0.0, 0.9999), (0.3, 0.99))
    ours = [outcome(score=12.5, arms=arms)]  # 6 of the last 8 plays with gamma 0.9999
    theirs = [outcome(score=11.0, arms=arms)]
    results = {"agent57": ours, IMPATIENT: theirs}
    assert all(c.judge(results).is_met for c in DISCOUNT.criteria)
    swapped = {"agent57": theirs, IMPATIENT: ours}
    assert [c.judge(swapped).is_met for c in DISCOUNT.criteria] == [False, True, False]
    lazy = [outcome(score=12.5, arms=arms[::-1])]
    verdicts = [c.judge({**results, "agent57": lazy}) for c in DISCOUNT.criteria]
    assert [v.is_met for v in verdicts] == [True, False, True]


def test_exploration_is_judged_by_return_by_the_best_arms_by_plays_and_by_speed() -> None:
    # Arm beta 0.3 is the first to earn half of the best return; beta 0 earns most in the end.
    returns = 10 * outcome().arm_returns
    # 2 of the last 8 plays with beta 0.3
    ours = outcome(score=6.6, arm_returns=returns, curve=np.array([0.0, 3.5, 6.0, 6.6]))
    slow = outcome("uniform choice", curve=np.array([0.0, 0.0, 3.5, 6.0]))
    results = {
        "agent57": [ours, ours],
        "uniform choice": [slow, slow],
        "r2d2": [outcome("r2d2", score=-0.1)],
    }
    assert all(c.judge(results).is_met for c in EXPLORATION_BANDIT.criteria)
    backwards = outcome(score=3.0, arm_returns=returns[:, ::-1], plays=ours.plays[:, ::-1])
    lucky = outcome("r2d2", score=1.0)
    results = {"agent57": [backwards], "uniform choice": [outcome()], "r2d2": [lucky]}
    assert not any(c.judge(results).is_met for c in EXPLORATION_BANDIT.criteria)


def test_uniform_choice_is_agent57_with_the_controllers_of_ngu() -> None:
    ours = config_of("exploration-bandit", "agent57")
    theirs = config_of("exploration-bandit", "uniform choice")
    kinds = (theirs.controller.kind, theirs.evaluator_controller.kind)
    assert kinds == (PRESETS["ngu"].controller.kind, PRESETS["ngu"].evaluator_controller.kind)
    bandits = {"controller": ours.controller, "evaluator_controller": ours.evaluator_controller}
    assert replace(theirs, **bandits) == ours
    assert theirs != ours


@pytest.mark.parametrize("name", ["discount", "exploration-bandit"])
def test_toys_are_repeated_in_the_precision_of_their_results(name: str) -> None:
    for label in EXPERIMENTS[name].contestants:
        assert config_of(name, label).learner.precision == "float32"


def test_toys_that_experiments_use_exist() -> None:
    assert {e.env for e in EXPERIMENTS.values() if e.env.startswith("toy/")} <= set(TOYS)


def test_every_claim_has_its_experiment() -> None:
    assert list(EXPERIMENTS) == [
        "pong", "key-corridor", "discount", "memory", "random-coin", "exploration-bandit",
        "hard-exploration", "meme",
    ]  # fmt: skip
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())
