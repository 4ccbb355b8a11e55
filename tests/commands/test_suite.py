import pytest

from agent57.commands.suite import SuiteOptions, num_seeds


@pytest.mark.parametrize(
    ("scale", "agent", "expected"),
    [("paper", "agent57", 6), ("paper", "r2d2", 3), ("laptop", "agent57", 3)],
)
def test_the_default_number_of_seeds_is_the_papers(scale: str, agent: str, expected: int) -> None:
    assert num_seeds(SuiteOptions(suite="atari57", scale=scale), agent) == expected
    assert num_seeds(SuiteOptions(suite="atari57", scale=scale, seeds=2), agent) == 2
