import io

import pytest
from rich.console import Console

from agent57.commands.reproduce import EXPERIMENTS, main
from agent57.config import ConfigError


def test_list_names_every_experiment() -> None:
    output = io.StringIO()
    main(["list"], Console(file=output, width=200))
    assert all(name in output.getvalue() for name in EXPERIMENTS)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["tennis"], "experiment 'tennis' is not one of random-coin"),
        (["random-coin", "--budget", "weeks"], "--budget 'weeks'"),
        (["random-coin", "--jobs", "-1"], "--jobs must not be negative"),
    ],
)
def test_a_mistake_is_one_line(args: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        main(args, Console(file=io.StringIO()))
