"""The runner from end to end at tiny scale, and its parts."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

import agent57
from agent57.config import Config, ConfigError
from agent57.experiments import runner
from agent57.experiments.experiment import Budget, Contestant
from agent57.experiments.jobs import Job, with_threads
from agent57.experiments.runner import (
    Key,
    check_plan,
    folder_name,
    jobs,
    reproduce,
    write_csv,
    write_tables,
)
from agent57.presets import Change
from agent57.storage.checkpoint import newest_counters
from agent57.storage.folder import RunFolder
from tests.experiments.made_up import experiment, outcome, tiny
from tests.runtime.runs import interrupted_when


def changed(**learner: float) -> Change:
    """Return the made-up experiment's change with other settings of the learner."""

    def change(config: Config) -> Config:
        config = tiny(config)
        return replace(config, learner=replace(config.learner, **learner))

    return change


def table(file: Path) -> list[dict[str, str]]:
    with file.open() as handle:
        return list(csv.DictReader(handle))


def test_an_experiment_from_training_to_its_card(tmp_path: Path) -> None:
    made = experiment()
    runs, out = tmp_path / "runs", tmp_path / "out"
    results, verdicts = reproduce(made, "minutes", runs, out, 2)
    assert [verdict.is_met for verdict in verdicts] == [True, False]
    assert list(results) == list(made.contestants)

    rows = table(out / "made_up.csv")
    assert [(row["contestant"], row["agent"], row["seed"]) for row in rows] == [
        ("ours", "agent57", "0"),
        ("theirs, joint", "ngu", "0"),
    ]
    assert all(0 <= float(row["score"]) <= 1 and row["frames"] == "300" for row in rows)
    assert all(row["commit"] for row in rows)
    assert {row["contestant"] for row in table(out / "curve.csv")} == {"ours", "theirs, joint"}
    arms = table(out / "arms.csv")
    played = [row for row in arms if row["contestant"] == "ours" and row["plays"]]
    episodes = [json.loads(line) for line in (runs / "ours-seed0" / "episodes.jsonl").open()]
    num_episodes = sum(row["source"] == "actor" for row in episodes)
    assert sum(int(row["plays"]) for row in played) == num_episodes
    assert len([row for row in arms if row["score"]]) == 4
    for name in ("curve.png", "curve.svg", "arms.png", "arms.svg", "README.md"):
        assert (out / name).stat().st_size > 500
    assert agent57.load(out / "weights").spec.name == "toy/bandit"
    assert "seed 0" in (out / "weights" / "README.md").read_text()

    # A second time nothing is trained, and the outcome is the same.
    files = {file: file.stat().st_mtime_ns for file in runs.rglob("metrics.jsonl")}
    reproduce(made, "minutes", runs, tmp_path / "again", 2)
    assert files == {file: file.stat().st_mtime_ns for file in runs.rglob("metrics.jsonl")}
    assert table(tmp_path / "again" / "made_up.csv") == rows

    # With more frames, the runs go on where they were.
    before = (runs / "ours-seed0" / "episodes.jsonl").read_text()
    longer = replace(made, budgets={"minutes": replace(made.budgets["minutes"], frames=400)})
    reproduce(longer, "minutes", runs, out, 2)
    assert {row["frames"] for row in table(out / "made_up.csv")} == {"400"}
    after = (runs / "ours-seed0" / "episodes.jsonl").read_text()
    assert after.startswith(before)
    assert len(after) > len(before)

    # With other settings, these runs are refused.
    other = replace(made, change=changed(learning_rate=0.1))
    with pytest.raises(
        ConfigError, match=r"other settings \(learner.learning_rate 0.001, now 0.1\): remove"
    ):
        reproduce(other, "minutes", runs, out, 2)


def test_seeds_are_trained_in_turn(tmp_path: Path) -> None:
    budget = Budget(frames=300, num_seeds=2, num_episodes=1)
    planned = jobs(experiment(), budget, tmp_path, 3)
    assert list(planned) == [
        ("ours", 0), ("theirs, joint", 0), ("ours", 1), ("theirs, joint", 1),
    ]  # fmt: skip
    for (label, seed), job in planned.items():
        assert job.config == with_threads(experiment().config(label, seed, 300), 3)


def test_folders_are_plain_names_of_their_own() -> None:
    assert folder_name("r2d2, gamma 0.997", 1) == "r2d2-gamma-0.997-seed1"


def begin(planned: dict[Key, Job]) -> None:
    """Write the files of a run that has just begun."""
    for job in planned.values():
        RunFolder.create(job.folder, job.config).close()


def test_a_plan_may_grow_but_not_change(tmp_path: Path) -> None:
    made = experiment()
    budget = made.budgets["minutes"]
    planned = jobs(made, budget, tmp_path, 1)
    first = check_plan(planned, tmp_path)
    begin(planned)
    more = replace(budget, num_seeds=2, frames=600)
    second = check_plan(jobs(made, more, tmp_path, 2), tmp_path)
    assert set(first) < set(second)
    other = replace(made, contestants={**made.contestants, "ours": Contestant(agent="ngu")})
    with pytest.raises(ConfigError, match=r"ours-seed0 was begun with other settings"):
        check_plan(jobs(other, budget, tmp_path, 1), tmp_path)


def test_a_run_that_was_removed_may_be_begun_anew_with_other_settings(tmp_path: Path) -> None:
    made = experiment()
    check_plan(jobs(made, made.budgets["minutes"], tmp_path, 1), tmp_path)
    other = replace(made, change=changed(batch_size=6))
    check_plan(jobs(other, made.budgets["minutes"], tmp_path, 1), tmp_path)
    assert set(json.loads((tmp_path / "plan.json").read_text())["ours-seed0"]) == {"commit"}


def test_a_run_keeps_the_commit_it_was_begun_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = jobs(experiment(), experiment().budgets["minutes"], tmp_path, 1)
    for commit in ("first", "second"):
        monkeypatch.setattr(runner, "git_commit", lambda now=commit: now)
        assert set(check_plan(planned, tmp_path).values()) == {"first"}
        if commit == "first":
            begin(planned)
    monkeypatch.setattr(runner, "git_commit", lambda: "third")
    (tmp_path / "plan.json").unlink()
    assert set(check_plan(planned, tmp_path).values()) == {"unknown"}


def test_a_damaged_plan_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    made = experiment()
    with pytest.raises(ConfigError, match="plan.json is damaged"):
        check_plan(jobs(made, made.budgets["minutes"], tmp_path, 1), tmp_path)


def test_a_task_whose_package_is_missing_is_one_line_before_anything_is_written(
    tmp_path: Path,
) -> None:
    made = experiment(env="no_such_package:Task-v0")
    with pytest.raises(ConfigError, match="pip install no_such_package"):
        reproduce(made, "minutes", tmp_path / "runs", tmp_path, 1)
    assert not (tmp_path / "runs").exists()


def test_a_run_is_a_row_with_the_final_score_of_each_of_its_arms(tmp_path: Path) -> None:
    one_arm = outcome("theirs, joint", arms=((0.0, 0.99),), arm_scores=(0.25,))
    write_tables(experiment(), {"ours": [outcome()], "theirs, joint": [one_arm]}, tmp_path)
    rows = table(tmp_path / "made_up.csv")
    assert [(row["score_arm_0"], row["score_arm_1"]) for row in rows] == [
        ("0.9", "0.3"), ("0.25", ""),
    ]  # fmt: skip
    not_scored = outcome(arm_scores=())
    write_tables(experiment(scores_arms=False), {"ours": [not_scored]}, tmp_path)
    assert "score_arm_0" not in table(tmp_path / "made_up.csv")[0]


def test_unknown_numbers_are_empty_cells(tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", ["a", "b"], [[float("nan"), 1 / 3], ["x, y", 2]])
    assert (tmp_path / "x.csv").read_text() == 'a,b\n,0.333333\n"x, y",2\n'


def slow_steps(config: Config) -> Config:
    """Return settings that log often and learn little."""
    config = tiny(config)
    run, replay = config.run, config.replay
    return replace(
        config,
        run=replace(run, log_frames=40),
        replay=replace(replay, samples_per_insert=0.5),
    )


def test_what_was_interrupted_goes_on_when_it_is_called_again(tmp_path: Path) -> None:
    made = experiment()
    alone = replace(
        made,
        change=slow_steps,
        contestants={"ours": made.contestants["ours"]},
        budgets={"minutes": Budget(frames=600, num_seeds=1, num_episodes=1)},
        criteria=made.criteria[:1],
    )
    folder, out = tmp_path / "ours-seed0", tmp_path / "out"

    def has_begun() -> bool:
        return (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size > 0

    with interrupted_when(has_begun), pytest.raises(KeyboardInterrupt):
        reproduce(alone, "minutes", tmp_path, out, 1)
    assert 0 < newest_counters(folder / "checkpoints")["frames"] < 600
    assert not (out / "README.md").exists()

    (folder / "mark").touch()  # a run that begins anew would lose this file
    _, (verdict,) = reproduce(alone, "minutes", tmp_path, out, 1)
    assert verdict.is_met
    assert (folder / "mark").exists()
    assert [row["frames"] for row in table(out / "made_up.csv")] == ["600"]
