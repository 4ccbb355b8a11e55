import io
import json

import numpy as np
import pytest
from rich.console import Console

from agent57.commands.scores import main
from agent57.config import ConfigError
from agent57.scores.published import (
    ABLATIONS,
    AGENTS,
    REFERENCES,
    STATISTICS,
    TABLES,
    baseline,
    capped,
    human_normalised,
    published,
    published_table1,
    reference_note,
    scores_result,
    suite_games,
    suite_statistics,
    table1,
)


def printed(table, reference, width=80, json_file=None):
    """Return what the command prints on a terminal of this width."""
    console = Console(file=io.StringIO(), width=width)
    args = ["--table", table, "--reference", reference]
    main([*args, "--json", str(json_file)] if json_file else args, console)
    return console.file.getvalue()


def test_the_paper_s_table_1_is_recomputed_to_0_05():
    recomputed, paper = table1("agent57"), published_table1()
    assert recomputed.keys() == paper.keys() == AGENTS.keys()
    for agent in AGENTS:
        assert recomputed[agent].keys() == paper[agent].keys() == STATISTICS.keys()
        for name in STATISTICS:
            assert abs(recomputed[agent][name] - paper[agent][name]) <= 0.05, (agent, name)


def test_the_printed_table_1_by_hand():
    agent57 = [100.00, 57, 4766.25, 1933.49, 1091.07, 614.65, 324.78, 184.35, 116.67]
    assert list(published_table1()["agent57"].values()) == agent57
    assert published_table1()["muzero"]["percentile_5"] == 0.03


def test_only_the_means_depend_on_the_reference():
    paper, field = table1("agent57"), table1("dqn_zoo")
    assert field["agent57"]["mean"] == pytest.approx(5881.3, abs=0.05)
    for agent in AGENTS:
        same = {name for name in STATISTICS if field[agent][name] == paper[agent][name]}
        assert {"capped_mean", "games_above_human", "median"} <= same
        assert "mean" not in same


def test_the_references_differ_in_one_random_score():
    games = suite_games("atari57")
    different = [g for g in games if baseline(g, "agent57") != baseline(g, "dqn_zoo")]
    assert different == ["video_pinball"]
    assert baseline("video_pinball", "agent57").random == 0.0
    assert baseline("video_pinball", "dqn_zoo").random == 16256.9
    assert baseline("video_pinball", "dqn_zoo").human == 17667.9


@pytest.mark.parametrize("reference", REFERENCES)
def test_human_is_one_and_random_is_zero_in_every_game(reference):
    for game in suite_games("atari57"):
        scale = baseline(game, reference)
        assert scale.human > scale.random
        assert human_normalised(scale.human, game, reference) == 1
        assert human_normalised(scale.random, game, reference) == 0


def test_normalisation_by_hand():
    assert human_normalised(20.67, "pong", "agent57") == pytest.approx((20.67 + 20.7) / 35.3)
    assert capped(human_normalised(20.67, "pong", "agent57")) == 1
    assert human_normalised(-21.0, "pong", "agent57") == pytest.approx(-0.3 / 35.3)
    assert capped(human_normalised(-21.0, "pong", "agent57")) == 0
    assert capped(human_normalised(-3.05, "pong", "agent57")) == pytest.approx(0.5)


def test_the_closest_calls_of_agent57():
    games = suite_games("atari57")
    hns = {game: 100 * published("agent57", game, "agent57").hns for game in games}
    closest = sorted(games, key=hns.get)[:5]
    assert closest == ["skiing", "freeway", "private_eye", "pong", "surround"]
    assert [round(hns[game], 1) for game in closest] == [101.1, 110.1, 114.6, 117.2, 118.2]


def test_the_suites_have_57_and_10_games():
    assert len(suite_games("atari57")) == len(set(suite_games("atari57"))) == 57
    assert suite_games("challenging10") == (
        *("beam_rider", "freeway", "montezuma_revenge", "pitfall", "pong"),
        *("private_eye", "skiing", "solaris", "surround", "venture"),
    )
    assert set(suite_games("challenging10")) < set(suite_games("atari57"))


def test_published_scores_carry_their_deviation():
    pitfall = published("ngu_sep_nets", "pitfall", "agent57")
    assert (pitfall.score, pitfall.deviation) == (15195.27, 8005.22)
    assert published("muzero", "alien", "agent57").deviation is None
    assert published("agent57", "alien", "agent57").deviation == 37054.55
    assert published("ngu_bandit", "alien", "agent57") is None  # ten games only


def test_statistics_by_hand():
    statistics = suite_statistics([-1.0, 0.5, 1.0, 3.5])
    assert statistics["capped_mean"] == (0 + 0.5 + 1 + 1) / 4
    assert statistics["games_above_human"] == 1  # equal to human is not above
    assert statistics["mean"] == 1
    assert statistics["median"] == 0.75
    # Four scores have three gaps, and 20 % of three gaps are 0.6.
    assert statistics["percentile_20"] == pytest.approx(-1 + 0.6 * 1.5)


def test_statistics_of_many_suites_are_those_of_each_by_law():
    hns = np.random.default_rng(0).normal(1, 2, size=(3, 4, 57))
    together = suite_statistics(hns)
    for index in np.ndindex(3, 4):
        for name, value in suite_statistics(hns[index]).items():
            assert together[name][index] == pytest.approx(float(value))


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("table", TABLES)
def test_json_says_what_is_printed(table, reference, tmp_path):
    text = printed(table, reference, json_file=tmp_path / "new" / "scores.json")
    result = json.loads((tmp_path / "new" / "scores.json").read_text())
    assert result == scores_result(table, reference)
    assert (result["table"], result["reference"]) == (table, reference)
    assert " ".join(result["note"].split()) in " ".join(text.split())


@pytest.mark.parametrize("table", TABLES)
def test_no_number_is_cut_on_80_columns(table):
    text = printed(table, "dqn_zoo")
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_the_challenging_table_has_the_ablations_and_their_parents():
    result = scores_result("challenging10", "agent57")
    agents = {"agent57", "ngu", "r2d2_retrace", *ABLATIONS}
    assert all(row["agents"].keys() == agents for row in result["games"].values())
    assert result["statistics"]["agent57"]["games_above_human"] == 10


def test_a_wide_terminal_shows_scores_and_deviations():
    text = printed("atari57", "agent57", width=200)
    assert "297638.2 ± 37054.6" in text
    assert "±" not in printed("atari57", "agent57", width=80)
    assert all(game in text for game in suite_games("atari57"))


def test_table_1_says_whether_it_agrees_with_the_paper():
    assert "54 of 54 numbers agree" in printed("table1", "agent57", width=120)
    text = printed("table1", "dqn_zoo", width=120)
    assert "48 of 54 numbers agree" in text
    assert "5881.34*" in text


@pytest.mark.parametrize("reference", REFERENCES)
def test_the_note_names_the_reference_and_the_difference(reference):
    note = reference_note(reference)
    assert note.startswith(f"Reference: {reference},")
    for part in ("video_pinball", "0.0 (agent57)", "16256.9 (dqn_zoo)", "4766.25", "5881.34"):
        assert part in note


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: printed("table2", "agent57"), "unknown table 'table2'; choose from table1, "),
        (lambda: printed("table1", "atari"), "unknown reference 'atari'; choose from agent57, "),
        (lambda: human_normalised(1, "pongg", "agent57"), "did you mean pong?"),
        (lambda: human_normalised(1, "random_coin", "agent57"), "no human score for game"),
        (lambda: published("rainbow", "pong", "agent57"), "no published scores of 'rainbow'"),
    ],
)
def test_what_is_unknown_is_one_line(call, message):
    with pytest.raises(ConfigError) as error:
        call()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unwritable_json_file_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="^--json .* cannot be written"):
        printed("table1", "agent57", json_file=tmp_path / "file" / "scores.json")
