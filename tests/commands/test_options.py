from dataclasses import dataclass
from typing import Annotated

import pytest
import tyro

from agent57.commands.options import parse
from agent57.config import ConfigError, require


@dataclass(frozen=True, kw_only=True)
class Section:
    size: int = 1

    def __post_init__(self) -> None:
        require(self.size > 0, f"section.size must be positive, got {self.size}")


@dataclass(frozen=True, kw_only=True)
class Example:
    run: Annotated[str, tyro.conf.Positional]
    frames: int | None = None
    share: float = 0.5
    section: Section = Section()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "missing: "),
        (["a", "--frames", "x"], "--frames must be a whole number, got 'x'"),
        (["a", "--share", "x"], "--share must be a number, got 'x'"),
        (["a", "--framess", "3"], "unknown option --framess"),
        (["a", "b"], "unknown option b"),
        (["a", "--section.size", "0"], "section.size must be positive, got 0"),
    ],
)
def test_mistakes_are_one_line(args, message):
    with pytest.raises(ConfigError) as caught:
        parse(Example, "example", args)
    assert str(caught.value).startswith(message)
    assert "see agent57 example --help" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_good_options_are_parsed_and_help_is_printed(capsys):
    assert parse(Example, "example", ["a", "--frames", "3"]).frames == 3
    with pytest.raises(SystemExit) as stop:
        parse(Example, "example", ["--help"])
    assert stop.value.code == 0
    assert "--share" in capsys.readouterr().out
