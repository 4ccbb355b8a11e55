"""Options of a command, from its arguments; a mistake is one line."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any, TypeVar

import tyro

from agent57.config import ConfigError
from agent57.storage.folder import read_config

Options = TypeVar("Options")
BOX = "╭╮╰╯│─ "


def parse(kind: type[Options], command: str, args: list[str], **more: Any) -> Any:  # noqa: ANN401
    """What `tyro.cli` makes of the arguments; `ConfigError` instead of its box of text."""
    if "--help" in args or "-h" in args:
        return tyro.cli(kind, prog=f"agent57 {command}", args=["--help"], **more)
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            return tyro.cli(kind, prog=f"agent57 {command}", args=args, **more)
    except SystemExit as stop:
        if stop.code == 0:
            raise
        text = one_line(messages.getvalue())
        raise ConfigError(f"{text} (see agent57 {command} --help)") from None


def vouch_for(path: Path) -> None:
    """Let the environment of a run folder or policy file import any module, as --trust says."""
    from agent57.envs.gymnasium import trust
    from agent57.trained.policy_file import read_trained

    trust((read_config(path) if path.is_dir() else read_trained(path).config).env.name)


def one_line(box: str) -> str:
    """The message of one of tyro's boxes."""
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
        return reason  # a section that refused its own values says all itself
    given = re.search(r"'(.*)'", reason)
    if given and ("int" in reason or "INT" in reason):
        return f"{name} must be a whole number, got {given[1]!r}"
    if given and ("float" in reason or "FLOAT" in reason):
        return f"{name} must be a number, got {given[1]!r}"
    return f"{name}: {reason}"
