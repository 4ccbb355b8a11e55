"""Parses the options of a command, and turns mistakes into one line."""

import contextlib
import dataclasses
import difflib
import io
import os
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import tyro

from agent57.config import ConfigError, EnvConfig
from agent57.storage.folder import read_config

Options = TypeVar("Options")
BOX = "╭╮╰╯│─ "
VALUE_WORDS: dict[Any, str] = {int: "N", float: "X", Path: "PATH"}


def parse(kind: type[Options], command: str, args: list[str], **more: Any) -> Any:  # noqa: ANN401
    """Parse the arguments with tyro; turn its box of text about a mistake into a `ConfigError`."""
    if "--help" in args or "-h" in args:
        return tyro.cli(described(kind), prog=f"agent57 {command}", args=["--help"], **more)
    args = with_counts(kind, args)
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            return tyro.cli(kind, prog=f"agent57 {command}", args=args, **more)
    except SystemExit as stop:
        if stop.code == 0:
            raise
        text = one_line(messages.getvalue()) + nearest_option(kind, messages.getvalue())
        raise ConfigError(f"{text} (see agent57 {command} --help)") from None


def described(kind: type[Options]) -> type[Options]:
    """Return the options for --help, with a plain word per value and without empty defaults.

    For an optional value tyro itself shows {None}|INT, and for a flag it also offers --no-trust.
    """
    annotated: Any = Annotated  # untyped, because its arguments are known at run time only
    fields = []
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        shown = [tyro.conf.arg(metavar=_value_word(field), help_behavior_hint=_default_text)]
        if field.default is False:
            shown.append(tyro.conf.FlagCreatePairsOff)
        kind_of_value = annotated[(field.type, *shown)]
        fields.append((field.name, kind_of_value, dataclasses.field(default=field.default)))
    made = dataclasses.make_dataclass(
        kind.__name__, fields, bases=(kind,), frozen=True, kw_only=True
    )
    made.__doc__ = kind.__doc__
    return made


def _value_word(field: "dataclasses.Field[Any]") -> str | None:
    """Return the word for an option's value in --help; None leaves the word to tyro."""
    is_positional = tyro.conf.Positional in getattr(field.type, "__metadata__", ())
    given = get_args(field.type)[0] if is_positional else field.type
    kind = next((kind for kind in get_args(given) if kind is not type(None)), given)
    word = field.name.split("_")[-1].upper()
    if get_origin(given) is tuple:
        return f"{word.removesuffix('S')} [{word.removesuffix('S')} ...]"
    if get_origin(kind) is Literal:
        return "{" + ",".join(get_args(kind)) + "}"
    if is_positional:
        return word if field.default is dataclasses.MISSING else f"[{word}]"
    return word if kind is str else VALUE_WORDS.get(kind)


def _default_text(default: str) -> str:
    return "" if default in ("None", "", "''", "False") else f"(default: {default})"


def vouch_for(path: Path) -> None:
    """Let the environment of a run folder or policy file import any module, as --trust says."""
    from agent57.trained.policy_file import read_trained

    vouch((read_config(path) if path.is_dir() else read_trained(path).config).env)


def vouch(env: EnvConfig) -> None:
    """Let a task import any module, also from the working folder: the user knows its code."""
    from agent57.envs.gymnasium import trust

    if ":" in env.name + env.wrapper:
        find_modules_here()
    trust(env.name)


def find_modules_here() -> None:
    """Let modules in the working folder be imported, after installed modules."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


COUNT = re.compile(r"(\d+(?:\.\d+)?)(?:e(\d+)|([kKMB]))")
POWERS = {"k": 3, "K": 3, "M": 6, "B": 9}


def with_counts(kind: Any, args: list[str]) -> list[str]:  # noqa: ANN401
    """Write out counts such as 1e6, 200k and 10M for options that are whole numbers."""
    whole = {f"--{name}" for name in whole_fields(kind)}
    words, option = [], ""
    for arg in args:
        name, is_pair, value = arg.partition("=")
        if arg.startswith("--"):
            option = name.replace("_", "-")
        if option in whole and is_pair and name.startswith("--"):
            arg = f"{name}={written_out(value)}"
        elif option in whole and not arg.startswith("--"):
            arg = written_out(arg)
        words.append(arg)
    return words


def whole_fields(kind: Any, prefix: str = "") -> set[str]:  # noqa: ANN401
    """Return the dotted names of the options that are whole numbers."""
    found: set[str] = set()
    for field in dataclasses.fields(kind):
        name = prefix + field.name.replace("_", "-")
        if field.default_factory is not dataclasses.MISSING:
            found |= whole_fields(type(field.default_factory()), f"{name}.")
        elif field.type in (int, int | None):
            found.add(name)
    return found


def written_out(word: str) -> str:
    """Write a count such as 2.5M as a whole number; leave other words as they are."""
    match = COUNT.fullmatch(word.replace("_", ""))
    if match is None:
        return word
    value = Decimal(match[1]).scaleb(int(match[2]) if match[2] else POWERS[match[3]])
    return str(int(value)) if value == int(value) else word


def nearest_option(kind: Any, message: str) -> str:  # noqa: ANN401
    """Return a hint for an option that does not exist."""
    given = re.search(r"Unrecognized options:\s*(--[\w.-]+)", message)
    if given is None:
        return ""
    known = [f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(kind)]
    close = difflib.get_close_matches(given[1], known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def one_line(box: str) -> str:
    """Return the message inside one of tyro's boxes."""
    text = ""
    for line in box.splitlines():
        row = line.strip(BOX)
        if text and ("─" in line or row.startswith("Got errors")):
            break
        if "╭" not in line:
            text = f"{text} {row}".strip()
    for prefix in ("Error parsing ", "Unrecognized options: ", "Missing from "):
        if text.startswith(prefix):
            text = _reworded(prefix, text.removeprefix(prefix))
    return text


def _reworded(prefix: str, rest: str) -> str:
    if prefix == "Unrecognized options: ":
        return f"unknown option {rest.split(',')[0]}"
    if prefix == "Missing from ":
        return f"missing: {rest.partition(':')[2].strip()}"
    name, _, reason = rest.partition(": ")
    if not name.startswith("-"):
        return reason  # the error of a section already names its field
    given = re.search(r"'(.*)'", reason)
    if given and ("int" in reason or "INT" in reason):
        return f"{name} must be a whole number, got {given[1]!r}"
    if given and ("float" in reason or "FLOAT" in reason):
        return f"{name} must be a number, got {given[1]!r}"
    return f"{name}: {reason}"
