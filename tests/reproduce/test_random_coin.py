"""Random coin as an experiment: the plan, the figure, the verdict. Training is tested elsewhere."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent57.commands.train import configured
from agent57.reproduce.experiment import Results
from agent57.reproduce.random_coin import AGENTS, BETAS, experiment, label
from tests.reproduce.made_up import outcome


def results(
    joint: float = 0.6, separate: float = 0.99, exploratory: float = 0.1, budget: str = "minutes"
) -> Results:
    """The joint network loses the coin at the highest beta alone."""
    betas = BETAS[budget]
    found: Results = {}
    for beta in betas:
        at_beta = joint if beta == max(betas) else 0.99
        found[label("ngu", beta)] = [outcome(arm_scores=(at_beta, 0.2))]
        found[label("ngu-sep-nets", beta)] = [outcome(arm_scores=(separate, exploratory))]
    return found


def verdicts(found: Results) -> list[bool]:
    return [criterion.judge(found).is_met for criterion in experiment().criteria]


@pytest.mark.parametrize("name", BETAS)
def test_a_budget_pays_for_both_agents_at_each_of_its_betas(name: str) -> None:
    made = experiment()
    assert made.budgets.keys() == BETAS.keys()
    labels = made.labels(made.budgets[name])
    assert len(labels) == len(set(labels)) == len(AGENTS) * len(BETAS[name])
    for agent in AGENTS:
        for beta in BETAS[name]:
            config, _ = configured(list(made.options(label(agent, beta), 1)))
            assert config.run.agent == agent
            assert config.family.max_beta == beta
            assert config.env.name == "random_coin"


def test_the_claim_is_met_only_if_separate_networks_keep_the_coin_and_joint_ones_lose_it() -> None:
    assert verdicts(results()) == [True, True, True, True]
    assert verdicts(results(joint=0.99)) == [True, True, False, False]
    assert verdicts(results(exploratory=0.9)) == [True, False, True, True]
    assert verdicts(results(separate=0.6)) == [False, True, True, False]
    one_is_bad = results()
    lowest = label("ngu-sep-nets", min(BETAS["minutes"]))
    one_is_bad[lowest] = [replace(one_is_bad[lowest][0], arm_scores=(0.9, 0.1))]
    assert verdicts(one_is_bad) == [False, True, True, True]


@pytest.mark.parametrize("name", BETAS)
def test_the_papers_figure_is_drawn(name: str, tmp_path: Path) -> None:
    made = experiment()
    names = made.draw(made, made.budgets[name], results(budget=name), tmp_path)
    assert names == ["random_coin"]
    assert (tmp_path / "random_coin.png").stat().st_size > 10_000
    content = (tmp_path / "random_coin.svg").read_text()
    for title in AGENTS.values():
        assert f"<!-- {title} -->" in content
