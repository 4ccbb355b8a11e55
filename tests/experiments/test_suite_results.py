import csv
import io
import json

import numpy as np
import pytest
from rich.console import Console

from agent57.commands.suite import show
from agent57.experiments.suite_results import suite_results, write_results
from agent57.reports.page import write_report
from agent57.scores.published import human_normalised
from tests.reports.made_up_runs import write_lines, write_run

AGENTS = ("agent57", "r2d2-bandit")
GAMES = ("pong", "breakout", "toy/chain")


def printed(results):
    """Return the lines of the table that `agent57 suite` prints."""
    text = io.StringIO()
    show(results, Console(file=text, width=120))
    return text.getvalue().splitlines()


def evaluations(returns):
    row = {
        "source": "evaluator", "phase": "evaluate", "lane": 0, "arm": 0, "beta": 0.0, "gamma": 0.99,
        "length": 10, "intrinsic_return": 0.0,
    }  # fmt: skip
    return [{**row, "frames": 100 * i, "return": r} for i, r in enumerate(returns)]


def made_up_suite(out):
    """Write a suite: two agents, two games and a toy, two seeds; agent57 scores 10 more."""
    seeds = {}
    for a, agent in enumerate(AGENTS):
        for g, game in enumerate(GAMES):
            folders = []
            for seed in range(2):
                run = write_run(out / game.replace("/", "-") / agent / f"seed{seed}", env=game)
                better = 10 * (1 - a) + g + seed
                write_lines(run / "episodes.jsonl", evaluations([better] * 60 + [0.0] * 50))
                folders.append(run)
            seeds.setdefault(agent, {})[game] = folders
    return seeds


def test_scores_follow_the_papers_rule_and_final_performance(tmp_path):
    results = suite_results(made_up_suite(tmp_path), GAMES, 12, 12, "agent57")
    row = next(r for r in results["scores"] if (r["game"], r["agent"]) == ("pong", "agent57"))
    assert row["score"] == 10.5  # the best window of 50, mean of 10 and 11
    assert row["deviation"] == 0.5
    assert row["final"] == 0.0
    assert row["hns"] == pytest.approx(human_normalised(10.5, "pong", "agent57"))
    assert row["chns"] == min(row["hns"], 1)
    toy = next(r for r in results["scores"] if r["game"] == "toy/chain")
    assert toy["hns"] is toy["chns"] is None


def test_aggregates_are_over_the_games_whose_human_score_is_known(tmp_path):
    results = suite_results(made_up_suite(tmp_path), GAMES, 12, 12, "agent57")
    ours = results["aggregates"]["paper"]["agents"]["agent57"]
    assert ours["coverage"] == "2 of 2 games, 2 runs each"
    expected = np.mean(
        [human_normalised(s, g, "agent57") for g, s in (("pong", 10.5), ("breakout", 11.5))]
    )
    mean = ours["statistics"]["mean"]
    assert mean["point"] == pytest.approx(expected)
    assert mean["low"] <= mean["point"] <= mean["high"]
    first = results["aggregates"]["paper"]["probability_of_improvement"][0]
    assert (first["better"], first["point"]) == ("agent57", 1.0)
    assert ours["profile"][0]["point"] == 1.0  # all runs score above random
    assert results["coverage"]["text"] == "complete: 12 runs"


def test_a_partial_suite_says_how_partial(tmp_path):
    seeds = made_up_suite(tmp_path)
    write_lines(seeds["agent57"]["pong"][0] / "episodes.jsonl", [])
    seeds["agent57"]["breakout"] = []
    results = suite_results(seeds, GAMES, 12, 7, "agent57")
    text = results["coverage"]["text"]
    assert text == "partial: 7 of 12 runs finished, 9 with an evaluation episode"
    ours = results["aggregates"]["paper"]["agents"]["agent57"]
    assert ours["missing_games"] == ["breakout"]
    assert ours["coverage"] == "1 of 2 games, 1 run each"


def test_a_complete_suite_counts_and_shows_runs_that_have_no_evaluation_episode(tmp_path):
    seeds = made_up_suite(tmp_path)
    for run in (*seeds["agent57"]["pong"], seeds["agent57"]["breakout"][1]):
        write_lines(run / "episodes.jsonl", [])
    results = {"suite": "three", **suite_results(seeds, GAMES, 12, 12, "agent57")}
    text = results["coverage"]["text"]
    assert text == "complete: 12 runs, 3 of them without an evaluation episode"
    assert results["unscored"] == [{"game": "pong", "agent": "agent57", "planned_seeds": 2}]
    shown = printed(results)
    assert len([line for line in shown if "agent57 " in line or "r2d2-bandit" in line]) == 6 + 2
    pong = next(line for line in shown if "pong" in line and "0 of 2" in line)
    assert pong.count("-") == 3
    breakout = next(line for line in shown if "breakout" in line and "1 of 2" in line)
    assert "±" not in breakout


def test_one_seed_has_no_deviation(tmp_path):
    seeds = made_up_suite(tmp_path)
    alone = {agent: {game: runs[:1] for game, runs in of.items()} for agent, of in seeds.items()}
    results = {"suite": "three", **suite_results(alone, GAMES, 6, 6, "agent57")}
    assert all(row["deviation"] is row["final_deviation"] is None for row in results["scores"])
    assert "±" not in "".join(printed(results))
    write_results(tmp_path, results)
    assert "± 0.0" not in write_report([tmp_path], None).read_text()
    both = {"suite": "three", **suite_results(seeds, GAMES, 12, 12, "agent57")}
    assert "10.5 ± 0.5" in "".join(printed(both))


def test_json_csv_and_report_tell_the_same(tmp_path):
    results = suite_results(made_up_suite(tmp_path), GAMES, 12, 12, "dqn_zoo")
    write_results(tmp_path, results)
    assert json.loads((tmp_path / "results.json").read_text())["scores"] == json.loads(
        json.dumps(results["scores"])
    )
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert len(rows) == 6
    assert float(rows[0]["score"]) == results["scores"][0]["score"]
    page = write_report([tmp_path], None).read_text()
    assert "Aggregates, best over training" in page
    assert "Probability of improvement" in page
    assert "Complete: 12 runs" in page


def test_a_suite_that_has_not_scored_yet_can_be_written(tmp_path):
    results = suite_results({"agent57": {"pong": []}}, ("pong",), 3, 0, "agent57")
    write_results(tmp_path, results)
    assert results["scores"] == []
    assert results["aggregates"]["final"]["agents"] == {}
