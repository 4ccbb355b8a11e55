from pathlib import Path

import numpy as np
import pytest

from agent57.reports.page import groups, write_report
from agent57.reports.suite_training import suite_training, training_section
from agent57.scores.published import baseline
from agent57.storage.history import RunHistory
from tests.reports.made_up_runs import episode, write_lines, write_run

FIELDS = episode(5, np.random.default_rng(0))  # an evaluator's episode in its evaluation phase


def scored_run(path: Path, env: str, returns: list[float], agent: str = "agent57") -> RunHistory:
    """Write a run with fifty evaluation episodes of each return, one return after another."""
    run = write_run(path, env=env, agent=agent, num_episodes=0)
    rows = [
        {**FIELDS, "frames": 100 * (50 * i + j), "return": value}
        for i, value in enumerate(returns)
        for j in range(50)
    ]
    write_lines(run / "episodes.jsonl", rows)
    return RunHistory.read(run)


def test_games_above_human_and_capped_mean_by_hand(tmp_path: Path) -> None:
    pong, boxing = baseline("pong", "agent57"), baseline("boxing", "agent57")
    half = boxing.random + 0.5 * (boxing.human - boxing.random)
    runs = [
        scored_run(tmp_path / "pong", "pong", [pong.random, pong.human + 1]),
        scored_run(tmp_path / "boxing", "boxing", [half, half]),
    ]
    (agent,) = suite_training(groups(runs))
    assert agent.games == ["pong", "boxing"]
    assert agent.games_above_human[0] == 0
    assert agent.games_above_human[-1] == 1
    first = int(np.searchsorted(agent.frames, 4900))
    assert agent.capped_mean[first - 1] == 0  # no window is full yet
    assert agent.capped_mean[first] == pytest.approx(25, abs=1)  # pong has 0, boxing 50
    assert agent.capped_mean[-1] == pytest.approx(75)


def test_seeds_are_averaged_and_agents_apart(tmp_path: Path) -> None:
    human = baseline("pong", "agent57").human
    runs = [scored_run(tmp_path / f"p{seed}", "pong", [human + 3 * seed]) for seed in (-1, 2)]
    runs += [scored_run(tmp_path / "b", "boxing", [0.0])]
    runs += [scored_run(tmp_path / "r", "pong", [human - 1], agent="r2d2-bandit")]
    first, second = suite_training(groups(runs))
    assert (first.agent, second.agent) == ("agent57", "r2d2-bandit")
    assert first.games_above_human[-1] == 1  # the mean of both seeds is above
    assert second.games_above_human[-1] == 0


def test_one_game_is_no_suite(tmp_path: Path) -> None:
    run = scored_run(tmp_path / "pong", "pong", [1.0])
    assert training_section(groups([run])) == {"title": "Over training"}


def test_the_report_of_a_suite_has_the_figures_as_page_and_svg(tmp_path: Path) -> None:
    for game in ("pong", "boxing"):
        scored_run(tmp_path / game / "agent57" / "seed0", game, [1.0, 2.0])
    page = write_report([tmp_path], None).read_text()
    for title in ("Games above human", "Capped mean", "Best arm per game, agent57"):
        assert title in page
    figure = (tmp_path / "training.svg").read_text()
    assert "<!-- games above human -->" in figure
    assert "<!-- capped mean score, % -->" in figure
    figure = (tmp_path / "best_arms.svg").read_text()
    for text in ("Best arm per game, agent57", "pong", "boxing", "emulator frames", "arm"):
        assert f"<!-- {text} -->" in figure


def test_best_arms_are_those_of_the_records_by_hand(tmp_path: Path) -> None:
    runs = [scored_run(tmp_path / game, game, [1.0]) for game in ("pong", "boxing")]
    (agent,) = suite_training(groups(runs))
    for frames, arm in ((500, np.nan), (1500, 0), (2500, 1), (12_000, 3)):  # a line every 1000
        np.testing.assert_equal(agent.best_arms[:, np.searchsorted(agent.frames, frames)], arm)
