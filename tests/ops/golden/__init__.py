"""Numbers computed by rlax in float64, and their reader."""

import json
import pathlib

import numpy as np


def load(name: str) -> dict[str, np.ndarray]:
    """The arrays of a case that `make_golden.py` wrote."""
    path = pathlib.Path(__file__).with_name(f"{name}.json")
    return {key: np.array(value) for key, value in json.loads(path.read_text()).items()}
