from pathlib import Path

import numpy as np

from agent57.experiments.card import write_card
from agent57.experiments.hard_exploration import AGENTS, GAMES, HARD_EXPLORATION, label
from tests.experiments.made_up import outcome


def results(montezuma: float, others: float, rival: float) -> dict:
    """Return results with one seed of every contestant."""
    found = {}
    for game in GAMES:
        for agent in AGENTS:
            score = montezuma if game == GAMES[0] else others
            found[label(game, agent)] = [
                outcome(
                    label(game, agent),
                    agent=agent,
                    evaluator=rival if agent == "r2d2" else score,
                    rewarded=np.array([np.nan, 0.0, 0.5, 1.0]),
                    novelty=np.array([1.0, 0.9, 0.8, 0.7]),
                    rooms=(frozenset({1}), frozenset({1, 2})) if game == GAMES[0] else (),
                )
            ]
    return found


def met(found: dict) -> list[bool]:
    return [criterion.judge(found).is_met for criterion in HARD_EXPLORATION.criteria]


def test_the_first_key_counts_and_the_rival_must_earn_nothing() -> None:
    assert met(results(100.0, 101.0, 0.0)) == [True] * 4
    assert met(results(99.0, 99.0, 1.0)) == [False] * 4


def test_every_game_is_played_by_every_agent_at_the_same_frames() -> None:
    for name in HARD_EXPLORATION.contestants:
        config = HARD_EXPLORATION.config(name, 0, 1000)
        assert (config.run.frames, config.run.kind) == (1000, "pixels")
        assert name == label(config.env.name, config.run.agent)


def test_the_figure_has_a_row_per_game_and_the_card_names_rooms(tmp_path: Path) -> None:
    found, budget = results(100.0, 101.0, 0.0), HARD_EXPLORATION.budgets["full"]
    figures = HARD_EXPLORATION.draw(HARD_EXPLORATION, budget, found, tmp_path)
    assert figures == ["games"]
    content = (tmp_path / "games.svg").read_text()
    for game in GAMES:
        assert f"<!-- {game}: share with a positive return -->" in content
    write_card(tmp_path / "README.md", HARD_EXPLORATION, "full", found, [], figures, "none")
    text = (tmp_path / "README.md").read_text()
    assert "agent57, montezuma_revenge: the final episodes saw rooms 1, 2; at most 2" in text
    assert "mean of its last 50 evaluation episodes" in text
    assert text.count("- task: `") == len(GAMES)
