"""Prints the figures of a script, and optionally writes them to a file."""

import json
from pathlib import Path


def show(figures: dict, file: Path | None = None) -> None:
    """Print figures as JSON with four significant digits, and write the same text to `file`."""
    rounded = json.loads(json.dumps(figures), parse_float=lambda x: float(f"{float(x):.4g}"))
    text = json.dumps(rounded, indent=2)
    print(text)
    if file is not None:
        file.write_text(text + "\n")
