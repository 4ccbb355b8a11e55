"""Print the figures of a script, and write them to a file if asked to."""

import json
from pathlib import Path


def show(figures: dict, file: Path | None = None) -> None:
    """Print figures as JSON with four significant digits; write the same text to `file`."""
    rounded = json.loads(json.dumps(figures), parse_float=lambda x: float(f"{float(x):.4g}"))
    text = json.dumps(rounded, indent=2)
    print(text)
    if file is not None:
        file.write_text(text + "\n")
