"""Options and output of the measurements that run as `python -m agent57.bench.NAME`."""

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from agent57.terminal.progress import say


def options_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of options, which shows a module's docstring as it is written."""
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=description, formatter_class=raw)


def need(package: str, install: str) -> None:
    """End with one line if a package is missing that only this measurement needs."""
    if importlib.util.find_spec(package) is None:
        sys.exit(f"{package} is missing: {install}")


def tell(text: str) -> None:
    """Print a line at once."""
    say(Console(), text)


def show(figures: dict[str, Any], file: Path | None = None) -> None:
    """Print figures as JSON with four significant digits, and write the same text to `file`."""
    rounded = json.loads(json.dumps(figures), parse_float=lambda x: float(f"{float(x):.4g}"))
    text = json.dumps(rounded, indent=2)
    tell(text)
    if file is not None:
        file.write_text(text + "\n")
