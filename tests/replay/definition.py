"""The windows of a played episode, computed by their definition."""

import numpy as np
import torch

from agent57.config import SequenceConfig
from agent57.replay.block import Layout
from agent57.types import Batch

from .episodes import Episode


def window_starts(episode: Episode, sequence: SequenceConfig) -> list[int]:
    """Return the first steps of the windows of a finished episode."""
    num_blocks = -(-episode.length // sequence.replay_period)
    return [
        k * sequence.replay_period
        for k in range(max(1, num_blocks - sequence.blocks_per_window + 1))
    ]


def window_by_definition(episode: Episode, start: int, sequence: SequenceConfig, layout: Layout):
    """Return the columns that `Batch` must have for this window, row by row."""
    zero = np.zeros(layout.observation_shape, layout.observation_dtype)
    observations = [row["observation"] for row in episode.rows] + [episode.final_observation]
    columns: dict[str, list] = {name: [] for name in Batch.__dataclass_fields__}
    for t in range(start, start + sequence.window_length + 1):
        columns["observation"].append(observations[t] if t <= episode.length else zero)
        for name in ("action", "extrinsic", "intrinsic"):
            is_real = 0 < t <= episode.length
            columns[f"previous_{name}"].append(episode.rows[t - 1][name] if is_real else 0)
    for t in range(start, start + sequence.window_length):
        is_real = t < episode.length
        for name in ("action", "extrinsic", "intrinsic"):
            columns[name].append(episode.rows[t][name] if is_real else 0)
        columns["action_prob"].append(episode.rows[t]["action_prob"] if is_real else 1)
        is_end = t == episode.length - 1 and episode.is_terminated
        columns["discount"].append(float(is_real and not is_end))
        columns["mask"].append(is_real)
    window = {name: np.array(column) for name, column in columns.items() if column}
    return window | {
        "arm": episode.arm,
        "start": start,
        "state": episode.rows[start]["state"],
    }


def batch_column(batch: Batch, column: int) -> dict[str, np.ndarray]:
    """Return one window of a batch, with the names of `window_by_definition`."""
    window = {}
    for name in Batch.__dataclass_fields__:
        tensor = getattr(batch, name)
        if name in ("arm", "start"):
            window[name] = tensor[column].numpy()
        elif name == "state":
            window[name] = tensor[:, :, column].numpy()
        elif name not in ("key", "probability"):
            window[name] = tensor[:, column].numpy()
    return window


def assert_same_window(actual: dict, expected: dict) -> None:
    """Check that two windows are equal, bit for bit."""
    assert actual.keys() == expected.keys()
    for name in expected:
        assert np.array_equal(actual[name], expected[name]), name


def assert_same_batch(actual: Batch, expected: Batch) -> None:
    for name in Batch.__dataclass_fields__:
        assert torch.equal(getattr(actual, name), getattr(expected, name)), name
