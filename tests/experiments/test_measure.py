import json

import numpy as np

from agent57.experiments.experiment import Budget
from agent57.experiments.measure import arm_bins, binned_mean, episode_returns, latest_at, measure
from agent57.storage.history import RunHistory
from agent57.trained.trained_run import TrainedRun
from tests.experiments.made_up import experiment
from tests.trained_run import trained_run

EDGES = np.array([10.0, 20.0, 30.0])


def test_values_fall_into_the_bin_that_ends_next() -> None:
    found = binned_mean([1, 10, 11, 99], [1.0, 3.0, 5.0, 7.0], EDGES)
    np.testing.assert_array_equal(found, [2.0, 5.0, 7.0])
    np.testing.assert_array_equal(binned_mean([25], [4.0], EDGES), [np.nan, np.nan, 4.0])


def test_the_latest_value_holds_until_the_next() -> None:
    np.testing.assert_array_equal(latest_at([(12, 1.0), (28, 2.0)], EDGES), [np.nan, 1.0, 2.0])
    np.testing.assert_array_equal(latest_at([(1, 1.0)], EDGES), [1.0, 1.0, 1.0])


def test_arms_are_counted_from_the_actors_episodes_alone() -> None:
    run = RunHistory.read(trained_run())
    edges = np.linspace(0, 600, 4)[1:]
    plays, returns = arm_bins(run, edges)
    actors = [row for row in run.episodes if row["source"] == "actor"]
    assert plays.sum() == len(actors) < len(run.episodes)
    mine = [row["return"] for row in actors if row["arm"] == 0 and row["frames"] <= 200]
    assert plays[0, 0] == len(mine)
    np.testing.assert_allclose(returns[0, 0], np.mean(mine) if mine else np.nan)


def test_the_outcome_of_a_run_is_what_its_records_say() -> None:
    folder = trained_run()
    budget = Budget(frames=600, num_seeds=1, num_episodes=3)
    found = measure(experiment(env="toy/chain"), budget, "ours", 7, folder, "abc")
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").open()]
    evaluated = [row["return"] for row in rows if row["phase"] == "evaluate"]
    assert (found.label, found.agent, found.seed, found.commit) == ("ours", "agent57", 7, "abc")
    assert found.frames == 600
    np.testing.assert_allclose(found.evaluator, np.mean(evaluated[-20:]))
    assert len(found.arm_scores) == len(found.arms) == found.plays.shape[1]
    assert found.score == found.arm_scores[found.best_arm]
    run = TrainedRun.load(folder)
    for arm in range(len(found.arms)):
        returns = episode_returns(run, arm, 0.01, 3)
        assert found.arm_scores[arm] == returns.mean()
        np.testing.assert_allclose(found.arm_errors[arm], (returns.var() / 3) ** 0.5)
    assert found.bin_frames[-1] == 600
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
    assert found.seconds == metrics[-1]["seconds"]
    assert found.best_arms[-1] == metrics[-1]["evaluator/best_arm"]


def test_only_the_best_arm_plays_unless_all_are_asked_for() -> None:
    folder = trained_run()
    budget = Budget(frames=600, num_seeds=1, num_episodes=3)
    made = experiment(env="toy/chain", scores_arms=False)
    found = measure(made, budget, "ours", 0, folder, "abc")
    assert found.arm_scores == found.arm_errors == ()
    assert found.score == episode_returns(TrainedRun.load(folder), found.best_arm, 0.01, 3).mean()
