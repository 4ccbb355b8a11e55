from dataclasses import dataclass
from typing import Annotated

import pytest
import tyro

from agent57.cli import COMMANDS, run
from agent57.commands.options import parse, with_counts, written_out
from agent57.commands.train import Train
from agent57.config import Config, ConfigError, require


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


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_has_plain_words_for_values(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"agent57 {command}" in text
    for oddity in ("None", "{}", "STR", "INT", "FLOAT", "--no-trust", "(default: )", "''"):
        assert oddity not in text.replace("or '' for this machine", "")
    assert text.count("--") > 1


def test_help_names_values_choices_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("train", "evaluate", "watch", "presets"):
        assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    for wanted in (
        "--frames N ", "--out PATH ", "--env ENV ", "--runtime {inline,cluster} ", "--epsilon X ",
        "--env-kwargs KWARG [KWARG ...]", "--episodes N ", "(default: 10)", "--trust ",
        "--overlay, --no-overlay", "RUN [RUN ...] ", "[NAME] ",
    ):  # fmt: skip
        assert wanted in text


@pytest.mark.parametrize(
    ("word", "number"),
    [("1e6", "1000000"), ("10M", "10000000"), ("2.5k", "2500"), ("500K", "500000"),
     ("1_000", "1_000"), ("3B", "3000000000"), ("2.5", "2.5"), ("many", "many"),
     ("1.2345k", "1.2345k")],
)  # fmt: skip
def test_counts_are_written_out(word: str, number: str) -> None:
    assert written_out(word) == number


def test_only_whole_numbers_are_counts() -> None:
    args = ["--frames", "1e6", "--out", "10M", "--seed=2k", "--replay.capacity", "5k"]
    found = with_counts(Train, args)
    assert found == ["--frames", "1000000", "--out", "10M", "--seed=2000", *args[-2:]]
    assert with_counts(Config, args)[-1] == "5000"
