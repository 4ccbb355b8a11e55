"""The desk suite: its plan, its scores by hand, its table, and a whole run at tiny scale."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent57.config import ConfigError
from agent57.defaults import default_config
from agent57.experiments import desk
from agent57.experiments.desk import TASKS, DeskScore, DeskTask
from agent57.presets import difference
from tests.trained_run import call

CHAIN = DeskTask(
    env="toy/chain", frames=300, target=0.5, random=-0.5, num_seeds=2, num_episodes=3,
    elsewhere="nobody",
)  # fmt: skip


def score(*seeds: float, system: str = "agent57") -> DeskScore:
    return DeskScore(task=CHAIN, system=system, seed_scores=seeds, frames=300, hours=0.5)


def test_runs_differ_from_the_defaults_in_frames_and_seed_alone(tmp_path: Path) -> None:
    suite = desk.desk_suite(TASKS[:2], ("agent57", "r2d2"), "laptop")
    jobs = suite.jobs(tmp_path, num_threads=1)
    assert len(jobs) == 2 * 2 * 3
    for job in jobs:
        name, agent = job.config.env.name, job.config.run.agent
        changed = difference(job.config, default_config(name, agent, "laptop"))
        assert set(changed) <= {"run.frames", "run.seed", "run.threads"}
    assert {job.frames for job in jobs} == {150_000}


def test_tasks_can_be_chosen_by_name() -> None:
    assert [task.env for task in desk.chosen_tasks("pong, CartPole-v1")] == ["pong", "CartPole-v1"]
    assert desk.chosen_tasks("") == TASKS
    with pytest.raises(ConfigError, match="--only 'ping' is not a task of the desk suite"):
        desk.chosen_tasks("ping")


def test_scores_by_hand() -> None:
    found = score(0.0, 1.0)
    assert found.score == 0.5
    assert found.error == pytest.approx(0.5)  # deviation sqrt(0.5), two seeds
    assert found.share == pytest.approx(1.0)
    assert found.is_met
    assert not score(0.0, 0.9).is_met
    assert desk.cell(found) == "0.5 ± 0.5"
    assert desk.cell(score(0.25)) == "0.25"
    assert desk.cell(None) == "-"


def test_the_table_has_agents_baselines_and_what_others_report(tmp_path: Path) -> None:
    scores = [score(0.4, 0.8), score(0.0, system="SB3 PPO")]
    desk.write_desk(tmp_path, (CHAIN,), ("agent57", "meme"), scores)
    lines = (tmp_path / "desk.md").read_text().splitlines()
    assert lines[4] == (
        "| task | steps (Atari: frames) | target | agent57 | meme | SB3 PPO | elsewhere |"
    )
    assert lines[6] == "| toy/chain | 300 | 0.5 | 0.6 ± 0.2 **met** | - | 0 | nobody |"
    rows = (tmp_path / "desk.csv").read_text().splitlines()
    assert rows[1] == "toy/chain,agent57,300,0.5,0.6,0.2,2,0.5,True"
    assert (tmp_path / "desk.png").stat().st_size > 5000


def test_baselines_are_read_and_damage_is_named(tmp_path: Path) -> None:
    file = tmp_path / "baselines.json"
    assert desk.read_baselines(file, (CHAIN,)) == []
    row = {"env": "toy/chain", "system": "SB3 DQN", "steps": 300, "seconds": 36, "seed_scores": [1]}
    file.write_text(json.dumps([row, {**row, "env": "elsewhere"}]))
    (found,) = desk.read_baselines(file, (CHAIN,))
    assert (found.system, found.score, found.hours) == ("SB3 DQN", 1.0, 0.01)
    file.write_text("[{}]")
    with pytest.raises(ConfigError, match="is damaged: make it again"):
        desk.read_baselines(file, (CHAIN,))


def test_from_the_command_to_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "TASKS", (replace(CHAIN, num_seeds=1),))
    args = ("suite", "desk", "--scale", "tiny", "--out", tmp_path / "desk")
    code, text = call(*args)
    assert code == 0, text
    assert "toy/chain" in (tmp_path / "desk" / "desk.md").read_text()
    file = tmp_path / "desk" / "toy-chain" / "agent57" / "seed0" / desk.SCORE_FILE
    kept = json.loads(file.read_text())
    assert len(kept["returns"]) == 3
    file.write_text(json.dumps({**kept, "returns": [9.0] * 3}))
    code, text = call(*args)  # nothing is trained or played again
    assert code == 0, text
    assert "1 runs, 1 finished already" in text
    assert "| 9 **met** |" in (tmp_path / "desk" / "desk.md").read_text()
    for damaged in ("", "[]", '{"frames": 1}', json.dumps({**kept, "returns": ["x"] * 3})):
        file.write_text(damaged)
        code, text = call(*args)  # the final policy plays again
        assert code == 0, text
        assert json.loads(file.read_text()) == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("desk", "--learner.batch_size", "3"), "measures the default settings"),
        (("desk", "--only", "x"), "is not a task of the desk suite"),
        (("pong", "--only", "pong"), "--only is for the desk suite"),
        (("desk", "--seeds", "0", "--only", "CartPole-v1"), "--seeds must be positive"),
    ],
)
def test_bad_options_create_nothing(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    code, text = call("suite", *options, "--out", tmp_path / "suite")
    assert code == 2
    assert message in text
    assert not (tmp_path / "suite").exists()
