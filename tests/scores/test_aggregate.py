import itertools
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from agent57.config import ConfigError
from agent57.scores.aggregate import (
    Bootstrap,
    aggregate,
    all_statistics,
    equal_weight,
    interval_estimates,
    iqm,
    normalised_runs,
    optimality_gap,
    paper_score,
    performance_profile,
    plus_minus,
    probability_of_improvement,
    resampled,
    windowed_mean,
)
from agent57.scores.published import AGENTS, published, published_hns, suite_games

GOLDEN = json.loads((Path(__file__).parent / "golden" / "rliable.json").read_text())


def rng(seed=0):
    return np.random.default_rng(seed)


def as_runs(scores):
    """Return the runs of games a, b, ... from scores with a row per run."""
    return {chr(97 + game): column for game, column in enumerate(np.asarray(scores).T)}


def golden_rng():
    return rng(GOLDEN["seed"])


def assert_golden(estimates, golden):
    for bound in ("point", "low", "high"):
        ours = [getattr(estimate, bound) for estimate in estimates]
        np.testing.assert_allclose(ours, golden[bound], rtol=1e-9)


# rliable's numbers


def test_aggregates_and_intervals_are_rliable_s():
    runs = as_runs(GOLDEN["first"])
    result = aggregate(
        runs, list(runs), Bootstrap(golden_rng(), num_resamples=GOLDEN["num_resamples"])
    )
    assert_golden([result.statistics[name] for name in GOLDEN["names"]], GOLDEN["statistics"])


def test_performance_profiles_are_rliable_s():
    runs = as_runs(GOLDEN["first"])
    profile = performance_profile(
        runs, GOLDEN["thresholds"], Bootstrap(golden_rng(), num_resamples=GOLDEN["num_resamples"])
    )
    assert_golden(profile, GOLDEN["profile"])


def test_probability_of_improvement_is_rliable_s():
    first, second = as_runs(GOLDEN["first"]), as_runs(GOLDEN["second"])
    ours = probability_of_improvement(first, second, Bootstrap(rng()))
    golden = GOLDEN["improvement"]
    assert ours.point == pytest.approx(golden["point"][0])
    # The draws differ, so the interval agrees up to the noise of 2000 of them.
    assert ours.low == pytest.approx(golden["low"][0], abs=0.02)
    assert ours.high == pytest.approx(golden["high"][0], abs=0.02)


# The paper's agents


@pytest.mark.parametrize(
    ("agent", "percent"),
    [
        *(("agent57", 2139), ("r2d2_bandit", 2694), ("r2d2", 2533)),
        *(("muzero", 2971), ("ngu", 1700), ("r2d2_retrace", 1666)),
    ],
)
def test_iqm_of_the_published_means(agent, percent):
    hns = published_hns(agent, suite_games("atari57"), "agent57")
    assert round(100 * float(iqm(hns[None]))) == percent


@pytest.mark.parametrize("agent", AGENTS)
def test_capped_mean_and_optimality_gap_differ_only_below_random(agent):
    hns = published_hns(agent, suite_games("atari57"), "agent57")
    statistics = all_statistics(hns[None])
    below_random = np.minimum(hns, 0).mean()
    assert 1 - statistics["optimality_gap"] == pytest.approx(
        statistics["capped_mean"] + below_random
    )


def test_agent57_is_above_human_on_57_games_with_one_run_and_no_interval():
    games = suite_games("atari57")
    raw = {game: [published("agent57", game, "agent57").score] for game in games}
    result = aggregate(normalised_runs(raw, "agent57"), games, Bootstrap(rng()))
    assert result.statistics["games_above_human"].point == 57
    assert result.statistics["capped_mean"].point == 1
    assert result.statistics["mean"].point == pytest.approx(47.6625, abs=5e-4)
    assert result.statistics["mean"].low is None
    assert result.statistics["mean"].high is None
    assert result.coverage == "57 of 57 games, 1 run each"


# By hand


def test_iqm_by_hand():
    assert iqm(np.array([[1.0, 2.0, 3.0, 100.0]])) == 2.5
    assert iqm(np.array([[1.0, 2.0], [3.0, 100.0]])) == 2.5  # runs and games are pooled
    assert iqm(np.array([[1.0, 2.0, 9.0]])) == 4  # a quarter of three scores is less than one


def test_optimality_gap_by_hand():
    assert optimality_gap(np.array([[0.5, 3.0], [-1.0, 1.0]])) == (0.5 + 0 + 2 + 0) / 4


def test_profile_by_hand():
    runs = {"a": [0.0, 1.0], "b": [2.0, 3.0]}
    profile = performance_profile(runs, [-1, 0, 1, 2.5, 3], Bootstrap(rng(), num_resamples=10))
    assert [estimate.point for estimate in profile] == [1, 0.75, 0.5, 0.25, 0]


def test_probability_of_improvement_by_hand():
    better = {"a": [1.0, 3.0], "b": [5.0, 5.0]}
    worse = {"a": [2.0], "b": [5.0]}
    # a: one of two pairs; b: two ties
    ours = probability_of_improvement(better, worse, Bootstrap(rng(), num_resamples=100))
    assert ours.point == (0.5 + 0.5) / 2
    assert 0.25 <= ours.low <= ours.point <= ours.high <= 0.75


def test_probability_of_improvement_uses_the_common_games():
    better, worse = {"a": [2.0], "b": [0.0]}, {"a": [1.0], "c": [9.0]}
    ours = probability_of_improvement(better, worse, Bootstrap(rng()))
    assert (ours.point, ours.low, ours.high) == (1, None, None)
    with pytest.raises(ConfigError, match="no game in common"):
        probability_of_improvement({"a": [1.0]}, {"b": [1.0]}, Bootstrap(rng()))


# By definition


def test_the_interval_of_a_tiny_suite_is_that_of_all_resamples():
    """Two games with two runs have 2^4 equally likely resamples. Their quantiles are the limits."""
    scores = np.array([[0.0, 10.0], [1.0, 30.0]])
    every = [
        np.mean([scores[i, 0], scores[j, 0], scores[k, 1], scores[m, 1]])
        for i, j, k, m in itertools.product(range(2), repeat=4)
    ]
    runs = as_runs(scores)
    ours = aggregate(runs, list(runs), Bootstrap(rng(), confidence=0.8, num_resamples=20_000))
    mean = ours.statistics["mean"]
    # Each extreme occurs in 1 of 16 resamples, less than 10 %. The next value occurs in 2 more.
    low, high = np.quantile(every, [0.1, 0.9], method="inverted_cdf")
    assert (low, high) == (np.sort(every)[1], np.sort(every)[-2]) == (5.25, 15.25)
    assert (mean.low, mean.high) == (low, high)
    draws = np.concatenate(list(resampled(runs, 20_000, rng()))).mean((1, 2))
    values, counts = np.unique(draws, return_counts=True)
    expected, multiplicity = np.unique(every, return_counts=True)
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(counts / 20_000, multiplicity / 16, atol=0.015)


def test_resamples_keep_each_game_to_its_own_runs():
    runs = {"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0], "c": [100.0]}
    draws = np.concatenate(list(resampled(runs, 500, rng(), chunk=64)))
    assert draws.shape == (500, 6, 3)
    for game, scores in enumerate(runs.values()):
        assert set(np.unique(draws[:, :, game])) == set(scores)
    # A draw repeats each of two runs three times, so the mean of b can only be 10, 15 or 20.
    assert set(draws[:, :, 1].mean(1)) == {10.0, 15.0, 20.0}


def test_the_spread_of_a_resampled_mean_is_the_standard_error():
    scores = rng(1).normal(size=8)
    draws = np.concatenate(list(resampled({"a": scores}, 20_000, rng())))
    assert draws.mean((1, 2)).std() == pytest.approx(scores.std() / np.sqrt(8), rel=0.03)


# By law


def test_games_weigh_the_same_whatever_their_number_of_runs():
    uneven = {"a": [1.0, 3.0], "b": [4.0, 5.0, 9.0], "c": [7.0]}
    matrix = equal_weight(uneven)
    assert matrix.shape == (6, 3)
    np.testing.assert_allclose(matrix.mean(0), [2, 6, 7])
    repeated = {game: list(scores) * (6 // len(scores)) for game, scores in uneven.items()}
    for name, value in all_statistics(matrix).items():
        assert value == pytest.approx(float(all_statistics(equal_weight(repeated))[name])), name


def test_equal_numbers_of_runs_are_left_alone():
    scores = rng().normal(size=(3, 5))
    np.testing.assert_array_equal(equal_weight(as_runs(scores)), scores)


def test_the_same_generator_gives_the_same_intervals_and_leaves_the_global_one_alone():
    runs = as_runs(rng(3).normal(size=(3, 4)))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (aggregate(runs, list(runs), Bootstrap(rng(seed))) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_chunks_change_nothing():
    runs = as_runs(rng(3).normal(size=(3, 4)))
    whole, parts = (np.concatenate(list(resampled(runs, 100, rng(), chunk=c))) for c in (100, 7))
    np.testing.assert_array_equal(whole, parts)


def test_points_lie_in_their_intervals_and_wider_confidence_is_wider():
    runs = as_runs(rng(4).lognormal(size=(6, 20)))
    narrow, wide = (
        aggregate(runs, list(runs), Bootstrap(rng(), confidence=c)) for c in (0.5, 0.99)
    )
    for name, estimate in wide.statistics.items():
        assert estimate.low <= estimate.point <= estimate.high, name
        inner = narrow.statistics[name]
        assert estimate.low <= inner.low <= inner.high <= estimate.high, name


def test_improvement_over_oneself_is_a_half_and_the_other_way_round_the_rest():
    x, y = as_runs(rng(5).normal(size=(4, 6))), as_runs(rng(6).normal(size=(3, 6)))
    assert probability_of_improvement(x, x, Bootstrap(rng(), num_resamples=50)).point == 0.5
    there, back = (
        probability_of_improvement(a, b, Bootstrap(rng(), num_resamples=50)).point
        for a, b in ((x, y), (y, x))
    )
    assert there + back == pytest.approx(1)


def test_the_order_of_games_and_runs_does_not_matter():
    scores = rng(7).normal(size=(3, 9))
    shuffled = scores[::-1, ::-1]
    for name, value in all_statistics(scores).items():
        assert value == pytest.approx(float(all_statistics(shuffled)[name])), name


# By contract


def test_a_partial_suite_says_how_partial():
    suite = suite_games("challenging10")
    runs = {"pong": [1.0, 2.0], "pitfall": [-0.5], "venture": []}
    result = aggregate(runs, suite, Bootstrap(rng(), num_resamples=100))
    assert result.coverage == "2 of 10 games, 1 to 2 runs each"
    assert not result.is_complete
    assert result.missing_games == tuple(g for g in suite if g not in ("pong", "pitfall"))
    assert result.hns == {"pitfall": -0.5, "pong": 1.5}
    assert result.chns == {"pitfall": 0.0, "pong": 1.0}
    assert result.num_runs == {"pitfall": 1, "pong": 2}
    assert json.loads(json.dumps(asdict(result), allow_nan=False))["num_resamples"] == 100


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({}, "no finished runs"),
        ({"pong": []}, "no finished runs"),
        ({"pong": [1.0, float("nan")]}, "'pong' has a score that is not finite"),
        ({"doom": [1.0]}, "not in the suite: doom"),
    ],
)
def test_runs_that_cannot_be_aggregated(runs, message):
    with pytest.raises(ConfigError, match=message):
        aggregate(runs, suite_games("atari57"), Bootstrap(rng()))


def test_settings_out_of_range():
    for settings in ({"confidence": 1.0, "num_resamples": 9}, {"confidence": 0.9}):
        with pytest.raises(ConfigError, match="must"):
            interval_estimates(
                {"a": [1.0]},
                lambda s: s.mean((-2, -1)),
                Bootstrap(rng(), **{"num_resamples": 0, **settings}),
            )


# The paper's score


def row(frames, value, source="evaluator", phase="evaluate"):
    return {
        **{"source": source, "phase": phase, "lane": 0, "arm": 0, "beta": 0.0, "gamma": 0.99},
        **{"frames": frames, "length": 10, "return": value, "intrinsic_return": 0.0},
    }


def rows(frames, returns):
    return [row(*pair) for pair in zip(frames, returns, strict=True)]


def test_paper_score_of_one_seed_by_hand():
    result = paper_score([rows([10, 20, 30, 40], [0.0, 6.0, 8.0, 1.0])], window_episodes=2)
    assert result.frames == (20, 30, 40)
    assert result.curve == (3, 7, 4.5)
    assert (result.score, result.at_frames, result.deviation) == (7, 30, 0)
    assert (result.final, result.seed_finals) == (4.5, (4.5,))
    assert result.is_window_full


def test_paper_score_of_two_seeds_by_hand():
    first = rows([0, 20, 40], [0.0, 10.0, 0.0])
    second = rows([10, 30], [2.0, 4.0])
    result = paper_score([first, second], window_episodes=1)
    # Both seeds have a curve from frame 10 on. After frame 30 the second keeps its value of 4.
    assert result.frames == (10, 20, 30, 40)
    assert result.curve == ((5 + 2) / 2, (10 + 3) / 2, (5 + 4) / 2, (0 + 4) / 2)
    assert (result.score, result.at_frames) == (6.5, 20)
    assert result.seed_scores == (10, 3)
    assert result.deviation == 3.5
    assert (result.final, result.final_deviation) == (2, 2)
    assert result.num_episodes == (3, 2)
    assert result.last_frames == (40, 30)


def test_the_deviation_is_the_paper_s():
    """Montezuma's Revenge of R2D2: 2666.67 +- 235.70, from three seeds."""
    result = paper_score([rows([1], [score]) for score in (2500.0, 2500.0, 3000.0)])
    printed = published("r2d2", "montezuma_revenge", "agent57")
    assert round(result.score, 2) == printed.score
    assert round(result.deviation, 2) == printed.deviation


def test_only_the_evaluator_s_evaluation_episodes_count():
    noise = [row(5, 1e9, source="actor", phase="train"), row(6, 1e9, phase="train")]
    noise.append(row(7, 1e9, source="actor"))
    clean = rows([10, 20], [1.0, 2.0])
    assert paper_score([noise + clean]) == paper_score([clean])
    with pytest.raises(ConfigError, match="seed 1 has no evaluation episodes"):
        paper_score([clean, noise])


def test_a_window_of_fifty_by_definition():
    returns = rng(8).normal(size=200)
    frames = np.cumsum(rng(9).integers(1, 1000, size=200)).astype(float)
    result = paper_score([rows(frames, returns)])
    means = [np.mean(returns[end - 50 : end]) for end in range(50, 201)]
    np.testing.assert_allclose(result.curve, means)
    assert result.score == pytest.approx(max(means))
    assert result.at_frames == frames[49 + int(np.argmax(means))]
    assert result.final == pytest.approx(means[-1])


def test_no_finer_grid_finds_a_higher_maximum():
    seeds = [
        (
            np.sort(rng(s).choice(10_000, 80, replace=False)).astype(float),
            rng(s + 9).normal(size=80),
        )
        for s in range(3)
    ]
    result = paper_score([rows(*seed) for seed in seeds])
    curves = [windowed_mean(*seed, 50) for seed in seeds]
    fine = np.linspace(result.frames[0], result.frames[-1], 20_001)
    mean = np.mean([np.interp(fine, *curve) for curve in curves], axis=0)
    assert mean.max() <= result.score + 1e-12
    assert mean.max() == pytest.approx(result.score, abs=1e-2)
    assert result.score == pytest.approx(np.mean(result.seed_scores))


def test_too_few_episodes_are_one_window_and_say_so():
    result = paper_score([rows([10, 20, 30], [9.0, 0.0, 0.0])])
    assert not result.is_window_full
    # The mean of all three episodes counts, not the lucky first one.
    assert (result.score, result.final, result.at_frames) == (3, 3, 30)


def test_rows_may_come_in_any_order_and_share_frames():
    ordered = rows([10, 20, 20, 30], [1.0, 2.0, 6.0, 5.0])
    result = paper_score([ordered], window_episodes=2)
    assert result.frames == (20, 30)
    assert result.curve == (4, 5.5)
    assert paper_score([[ordered[i] for i in (3, 1, 0, 2)]], window_episodes=2) == result


def test_a_score_is_ready_for_json_and_for_aggregation():
    games = ("pong", "venture")
    results = {
        game: paper_score([rows([1, 2], [1.0, s]) for s in (2.0, 4.0)], window_episodes=1)
        for game in games
    }
    json.dumps({game: asdict(result) for game, result in results.items()}, allow_nan=False)
    raw = {game: result.seed_scores for game, result in results.items()}
    result = aggregate(normalised_runs(raw, "agent57"), games, Bootstrap(rng(), num_resamples=50))
    assert result.hns["venture"] == pytest.approx(3 / 1187.5)
    assert result.coverage == "2 of 2 games, 2 runs each"


def test_nothing_to_score():
    with pytest.raises(ConfigError, match="no seeds"):
        paper_score([])
    with pytest.raises(ConfigError, match="window_episodes"):
        paper_score([rows([1], [1.0])], window_episodes=0)


def test_scores_of_at_most_a_point_keep_their_digits_by_hand() -> None:
    assert plus_minus(0.5418, 0.0423, 3) == "0.542 ± 0.042"
    assert plus_minus(0.0, 0.0, 3) == "0.0 ± 0.0"
    assert plus_minus(1234.56, 7.89, 3) == "1,234.6 ± 7.9"
    assert plus_minus(-0.25, 1.0, 1) == "-0.250"
