"""Lets a program listen to a run that it started, and stop the run."""

from collections.abc import Callable
from typing import Any

Callback = Callable[[dict[str, Any]], object]


class Hooks:
    """Hands each new line of metrics.jsonl and episodes.jsonl to a program.

    A callback that returns True ends the run after the current step, as Ctrl-C does. The run writes
    a checkpoint and can be resumed. Callbacks get copies of the lines.
    """

    def __init__(
        self, on_metrics: Callback | None = None, on_episode: Callback | None = None
    ) -> None:
        self._on_metrics = on_metrics
        self._on_episode = on_episode
        self.is_stopping = False

    def metrics(self, row: dict[str, Any]) -> None:
        """Pass on a line of metrics."""
        self._call(self._on_metrics, row)

    def episode(self, row: dict[str, Any]) -> None:
        """Pass on a finished episode."""
        self._call(self._on_episode, row)

    def _call(self, callback: Callback | None, row: dict[str, Any]) -> None:
        if callback is not None and callback(dict(row)) is True:
            self.is_stopping = True
