"""Random coin as an experiment: the plan, the figure, the verdict. Training is tested elsewhere."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent57.experiments.experiment import Results
from agent57.experiments.separate_networks import AGENTS, BETAS, experiment, label
from agent57.presets import difference
from agent57.reports import figures
from tests.experiments.made_up import outcome


def results(joint: float = 0.6, separate: float = 0.99, exploratory: float = 0.1) -> Results:
    """Return results in which the joint network loses the coin only at the highest beta."""
    found: Results = {}
    for beta in BETAS:
        at_beta = joint if beta == max(BETAS) else 0.99
        found[label("ngu", beta)] = [outcome(arm_scores=(at_beta, 0.2))]
        found[label("ngu-sep-nets", beta)] = [outcome(arm_scores=(separate, exploratory))]
    return found


def verdicts(found: Results) -> list[bool]:
    return [criterion.judge(found).is_met for criterion in experiment().criteria]


def test_both_agents_play_at_each_beta_and_differ_in_the_networks_alone() -> None:
    made = experiment()
    assert len(made.contestants) == len(AGENTS) * len(BETAS)
    for beta in BETAS:
        joint, separate = (
            made.config(label(agent, beta), 1, frames=1000) for agent in ("ngu", "ngu-sep-nets")
        )
        for config in (joint, separate):
            assert (config.env.name, config.family.max_beta) == ("random_coin", beta)
        assert difference(joint, separate) == {
            "network.values": ("joint", "separate"),
            "run.agent": ("ngu", "ngu-sep-nets"),
        }


def test_the_claim_is_about_separate_networks_where_they_matter_most() -> None:
    assert experiment().subject == label("ngu-sep-nets", max(BETAS))


def test_the_full_budget_adds_frames_and_seeds_to_the_small_one() -> None:
    minutes, full = (experiment().budgets[name] for name in ("minutes", "full"))
    assert minutes.frames < full.frames
    assert minutes.num_seeds < full.num_seeds


def test_the_claim_is_met_only_if_separate_networks_keep_the_coin_and_joint_ones_lose_it() -> None:
    assert verdicts(results()) == [True, True, True, True]
    assert verdicts(results(joint=0.8)) == [True, True, False, False]
    assert verdicts(results(exploratory=0.21)) == [True, False, True, True]
    assert verdicts(results(separate=0.7)) == [False, True, True, False]


@pytest.mark.parametrize("beta", BETAS)
def test_one_bad_seed_at_one_beta_falls_short(beta: float) -> None:
    found, name = results(), label("ngu-sep-nets", beta)
    found[name] = [found[name][0], replace(found[name][0], arm_scores=(0.94, 0.1))]
    assert verdicts(found) == [False, True, True, True]


def drawn(monkeypatch: pytest.MonkeyPatch, found: Results, budget: str) -> dict[str, Any]:
    """Return the data from which the figure would be drawn."""
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        figures, "grouped_bars", lambda panels, **rest: asked.update(rest, panels=panels)
    )
    made = experiment()
    assert made.draw(made, made.budgets[budget], found, Path("nowhere")) == ["random_coin"]
    return asked


def test_the_figure_has_the_papers_panels_and_the_means_and_extremes_of_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = results()
    name = label("ngu", 0.1)
    found[name] = [outcome(arm_scores=scores) for scores in ((0.2, 0.0), (0.4, 0.3), (0.9, 0.3))]
    asked = drawn(monkeypatch, found, "full")
    assert list(asked["panels"]) == ["NGU (joint network)", "NGU, separate networks"]
    assert asked["groups"] == ["0.01", "0.1", "1"]
    joint = asked["panels"]["NGU (joint network)"]
    assert joint["exploitative"][1] == pytest.approx((0.5, 0.2, 0.9))
    assert joint["exploratory"][1] == pytest.approx((0.2, 0.0, 0.3))
    assert "3 seeds; bars: mean, lines: lowest and highest seed" in asked["note"]


def test_the_figure_of_one_seed_has_standard_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = drawn(monkeypatch, results(), "minutes")
    separate = asked["panels"]["NGU, separate networks"]
    assert separate["exploitative"][2] == pytest.approx((0.99, 0.98, 1.0))
    assert separate["exploratory"][2] == pytest.approx((0.1, 0.08, 0.12))
    assert "1 seed; bars: mean, lines: standard error over episodes" in asked["note"]


def test_the_figure_is_drawn_also_if_all_seeds_are_equal(tmp_path: Path) -> None:
    made = experiment()
    found = {name: outcomes * 3 for name, outcomes in results(separate=0.998).items()}
    made.draw(made, made.budgets["full"], found, tmp_path)
    assert (tmp_path / "random_coin.png").stat().st_size > 10_000
    content = (tmp_path / "random_coin.svg").read_text()
    for title in AGENTS.values():
        assert f"<!-- {title} -->" in content
