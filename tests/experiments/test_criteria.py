"""Every measure, checked by hand on the runs of `made_up`."""

import numpy as np
import pytest

from agent57.experiments import criteria
from tests.experiments.made_up import outcome

TWO_SEEDS = {"ours": [outcome(), outcome(seed=1, score=0.5, evaluator=0.4, arm_scores=(0.5, 0.1))]}


def test_scores_are_means_over_seeds() -> None:
    assert criteria.final_score("ours")(TWO_SEEDS) == pytest.approx(0.7)
    assert criteria.evaluator_score("ours")(TWO_SEEDS) == pytest.approx(0.6)
    assert criteria.arm_score("ours", 0)(TWO_SEEDS) == pytest.approx(0.7)
    assert criteria.arm_score("ours", -1)(TWO_SEEDS) == pytest.approx(0.2)


def test_differences_of_measures_by_hand() -> None:
    high, low = criteria.arm_score("ours", 0), criteria.arm_score("ours", 1)
    assert criteria.minus(high, low)(TWO_SEEDS) == pytest.approx(0.5)


def test_training_seconds_are_means_over_seeds() -> None:
    results = {"ours": [outcome(seconds=10.0), outcome(seconds=30.0)]}
    assert criteria.training_seconds("ours")(results) == 20.0


def test_frames_behind_are_the_difference_less_two_standard_errors() -> None:
    # 0.5 is reached after 100, 200 and 300 frames, or never, which counts as all 400 frames.
    curves = ([0.9, 0, 0, 0], [0, 0.5, 0, 0], [0, np.nan, 0.6, 0.1], [0, 0.4, 0, 0])
    first, second, third, never = (outcome(curve=np.array(curve)) for curve in curves)
    results = {"ours": [first, second], "theirs": [third, never]}
    # The means are 150 and 350, and both variances are 5,000 (two deviations of 50, over one).
    error = (5000 / 2 + 5000 / 2) ** 0.5
    assert criteria.frames_behind("theirs", "ours", 0.5)(results) == pytest.approx(200 - 2 * error)
    assert criteria.frames_behind("ours", "theirs", 0.5)(results) == pytest.approx(-200 - 2 * error)


def test_a_single_seed_is_not_behind() -> None:
    assert np.isnan(
        criteria.frames_behind("theirs", "ours", 0.5)({"ours": [outcome()], "theirs": [outcome()]})
    )


def test_the_share_of_plays_counts_the_arms_asked_for_in_the_part_asked_for() -> None:
    is_high = lambda beta, gamma: gamma > 0.95  # noqa: E731
    results = {"ours": [outcome()]}
    assert criteria.share_of_plays("ours", is_high, 0.75, 1.0)(results) == 6 / 8
    assert criteria.share_of_plays("ours", is_high, 0.0, 0.5)(results) == 2 / 6
    assert criteria.share_of_plays("ours", is_high, 0.5, 0.75)(results) == 0  # nothing was played


def test_the_best_beta_early_is_that_of_the_best_arm_until_the_actors_earn_enough() -> None:
    results = {"ours": [outcome()]}
    # Mean return of all actors by bin: 0, (0 + 3 * 0.5) / 4 = 0.375, no plays, and
    # (6 * 0.8 + 2 * 0.4) / 8 = 0.7.
    assert criteria.early_best_beta("ours", 0.375)(results) == 0.3  # 0.375 of beta 0.3 against 0
    # Over all bins, beta 0 has (6 * 0.8) / 8 = 0.6 and beta 0.3 (3 * 0.5 + 2 * 0.4) / 6 = 0.383.
    assert criteria.early_best_beta("ours", 0.7)(results) == 0.0
    assert criteria.early_best_beta("ours", 5.0)(results) == 0.0  # never reached


def test_one_lucky_episode_does_not_make_an_arm_the_best_early() -> None:
    returns = outcome().arm_returns.copy()
    returns[0] = 0.3, 0.0  # (0.3 + 0) / 2 of beta 0 against (0 + 3 * 0.5) / 4
    assert criteria.early_best_beta("ours", 0.375)({"ours": [outcome(arm_returns=returns)]}) == 0.3


def test_an_arm_that_was_not_played_is_not_the_best() -> None:
    run = outcome(
        plays=np.array([[0.0, 1], [0, 3], [0, 0], [6, 2]]),
        arm_returns=np.array([[np.nan, -1.0], [np.nan, 0.0], [np.nan, np.nan], [0.8, 0.4]]),
    )
    assert criteria.early_best_beta("ours", 0.0)({"ours": [run]}) == 0.3


def test_the_best_beta_late_is_that_of_the_arm_that_earns_most_in_the_end() -> None:
    assert criteria.late_best_beta("ours")({"ours": [outcome()]}) == 0.0
    turned = outcome(arm_returns=outcome().arm_returns[:, ::-1])
    assert criteria.late_best_beta("ours")({"ours": [turned]}) == 0.3
