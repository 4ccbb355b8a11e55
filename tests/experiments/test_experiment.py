import math
from dataclasses import replace

import pytest

from agent57.defaults import default_config
from agent57.experiments.criteria import final_score
from agent57.experiments.experiment import Criterion, unchanged
from tests.experiments.made_up import experiment, outcome


@pytest.mark.parametrize(
    ("score", "is_at_least", "is_met"),
    [(0.8, True, True), (0.79, True, False), (0.8, False, True), (0.81, False, False)],
)
def test_a_criterion_is_met_at_its_target(score: float, is_at_least: bool, is_met: bool) -> None:
    criterion = Criterion(
        text="return", measure=final_score("ours"), target=0.8, is_at_least=is_at_least
    )
    verdict = criterion.judge({"ours": [outcome(score=score)]})
    assert (verdict.value, verdict.is_met) == (score, is_met)
    assert verdict.goal == f"return at {'least' if is_at_least else 'most'} 0.8"
    assert verdict.word == ("pass" if is_met else "FALLS SHORT")


def test_a_number_that_could_not_be_measured_falls_short() -> None:
    for is_at_least in (True, False):
        criterion = Criterion(
            text="x", measure=lambda results: math.nan, target=0.0, is_at_least=is_at_least
        )
        assert not criterion.judge({}).is_met


def test_a_contestants_change_comes_last_so_that_it_wins() -> None:
    config = experiment().config("theirs, joint", 3, frames=700)
    assert (config.run.agent, config.run.seed, config.run.frames) == ("ngu", 3, 700)
    assert config.env.name == "toy/bandit"
    assert config.learner.batch_size == 5
    assert experiment().config("ours", 3, frames=700).learner.batch_size == 4


def test_an_experiment_starts_from_the_defaults_of_its_task() -> None:
    plain = experiment(scale="laptop", change=unchanged)
    config = default_config("toy/bandit", "agent57", "laptop")
    run = replace(config.run, seed=0, frames=300)
    assert plain.config("ours", 0, frames=300) == replace(config, run=run)
