import io

import pytest
from rich.console import Console

from agent57.commands.options import parse
from agent57.commands.reproduce import Reproduce, main
from agent57.config import ConfigError
from agent57.experiments import runner
from agent57.experiments.catalogue import EXPERIMENTS
from agent57.experiments.experiment import Experiment, Results, Verdict
from agent57.runtime.run import RunFailed
from tests.experiments.made_up import outcome


def test_list_names_every_experiment_its_task_and_what_must_come_out() -> None:
    output = io.StringIO()
    main(["list"], Console(file=output, width=300))
    for name, experiment in EXPERIMENTS.items():
        assert name in output.getvalue()
        assert experiment.claim in output.getvalue()
        assert experiment.env in output.getvalue()
        for criterion in experiment.criteria:
            assert criterion.goal in output.getvalue()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["tennis"], "experiment 'tennis' is not one of pong, "),
        (["random-coin", "--budget", "weeks"], "--budget 'weeks' is not one of minutes, full"),
        (["random-coin", "--jobs", "-1"], "--jobs must not be negative"),
        (["random-coin", "--seeds", "0"], "--seeds must be positive, got 0"),
    ],
)
def test_a_mistake_is_one_line(args: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        main(args, Console(file=io.StringIO()))


def test_the_smaller_budget_is_the_default() -> None:
    assert parse(Reproduce, "reproduce", ["random-coin"]).budget == "minutes"
    assert parse(Reproduce, "reproduce", ["random-coin", "--budget", "full"]).budget == "full"


@pytest.mark.parametrize(("options", "number"), [([], 3), (["--seeds", "1"], 1)])
def test_seeds_are_those_of_the_budget_unless_given(
    options: list[str], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def reproduce(
        experiment: Experiment, budget_name: str, *_: object
    ) -> tuple[Results, list[Verdict]]:
        asked.append(experiment.budgets[budget_name])
        return {}, []

    monkeypatch.setattr(runner, "reproduce", reproduce)
    main(["random-coin", "--budget", "full", *options], Console(file=io.StringIO()))
    assert asked[0].num_seeds == number
    assert asked[0].frames == EXPERIMENTS["random-coin"].budgets["full"].frames


def test_the_screen_shows_scores_and_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [Verdict(goal="return at least 1", value=0.5, is_met=False)]
    found = {"ours": [outcome(score=0.5)]}, verdicts
    monkeypatch.setattr(runner, "reproduce", lambda *_: found)
    text = io.StringIO()
    with pytest.raises(RunFailed, match="random-coin fell short of the paper's claim"):
        main(["random-coin"], Console(file=text, width=150))
    assert "FALLS SHORT: return at least 1: 0.5" in text.getvalue()
    assert "0 (beta 0, gamma 0.99)" in text.getvalue()
