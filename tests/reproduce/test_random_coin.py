"""Random coin as an experiment: the plan, the figure, the verdict. Training is tested elsewhere."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from agent57.commands.options import parse
from agent57.commands.train import configured
from agent57.reproduce.random_coin import (
    AGENTS,
    BUDGETS,
    Budget,
    Outcome,
    draw,
    jobs,
    verdict,
    write_csv,
)


def outcomes(joint_exploitative: float, exploratory: float = 0.1) -> list[Outcome]:
    rows = []
    for beta in (0.1, 1.0):
        rows.append(
            Outcome(
                agent="ngu", beta=beta, seed=0, exploitative=joint_exploitative, exploratory=0.2
            )
        )
        rows.append(
            Outcome(
                agent="ngu-sep-nets", beta=beta, seed=0, exploitative=0.99, exploratory=exploratory
            )
        )
    return rows


def quiet() -> Console:
    return Console(file=io.StringIO())


@pytest.mark.parametrize("name", BUDGETS)
def test_every_run_of_the_plan_is_a_valid_configuration(name: str, tmp_path: Path) -> None:
    planned = jobs(BUDGETS[name], tmp_path)
    assert len(planned) == len(AGENTS) * len(BUDGETS[name].betas) * BUDGETS[name].num_seeds
    assert len({job.folder for job in planned.values()}) == len(planned)
    for (agent, beta, seed), job in planned.items():
        config, _ = configured(list(job.options))
        assert config.run.agent == agent
        assert config.run.seed == seed
        assert config.family.max_beta == beta
        assert config.env.name == "random_coin"


def test_the_claim_is_met_only_if_separate_networks_keep_the_coin_and_joint_ones_lose_it() -> None:
    assert verdict(outcomes(joint_exploitative=0.6), quiet())
    assert not verdict(outcomes(joint_exploitative=0.99), quiet())
    assert not verdict(outcomes(joint_exploitative=0.6, exploratory=0.9), quiet())


def test_figure_and_data_are_written(tmp_path: Path) -> None:
    budget = Budget(betas=(0.1, 1.0), num_seeds=1, frames=10, num_episodes=1)
    draw(outcomes(0.5), budget, tmp_path)
    write_csv(tmp_path / "random_coin.csv", outcomes(0.5))
    assert (tmp_path / "random_coin.png").stat().st_size > 10_000
    assert b"<svg" in (tmp_path / "random_coin.svg").read_bytes()
    rows = list(csv.DictReader((tmp_path / "random_coin.csv").open()))
    assert len(rows) == 4
    assert float(rows[0]["exploitative"]) == 0.5


def test_parse_is_the_one_of_the_command_line() -> None:
    from agent57.commands.reproduce import Reproduce

    assert parse(Reproduce, "reproduce", ["random-coin", "--budget", "full"]).budget == "full"
