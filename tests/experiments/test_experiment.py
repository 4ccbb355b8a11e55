import math

import pytest

from agent57.experiments.criteria import final_score
from agent57.experiments.experiment import Criterion
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


def test_a_contestants_options_come_after_the_settings_so_that_they_win() -> None:
    options = experiment().options("theirs, joint", 3)
    assert options[:6] == ("--agent", "ngu", "--env", "toy/bandit", "--seed", "3")
    assert options[-2:] == ("--learner.batch_size", "5")
    assert options.index("--learner.batch_size") < len(options) - 2
