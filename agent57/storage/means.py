"""Means of scalars, each over the number of times that it was added."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any


class Means:
    """Running sums and counts by name."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, int] = defaultdict(int)

    def add(self, scalars: Mapping[str, float]) -> None:
        """Add scalars by their names."""
        for name, value in scalars.items():
            self._sums[name] += value
            self._counts[name] += 1

    def means(self) -> dict[str, float]:
        """Return the mean of each scalar since the last `clear`."""
        return {name: total / self._counts[name] for name, total in self._sums.items()}

    def clear(self) -> None:
        """Forget all scalars."""
        self._sums.clear()
        self._counts.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        self._sums = defaultdict(float)
        self._counts = defaultdict(int)
        for name in sorted(state["sums"].keys() | state["counts"].keys()):
            self._sums[name] = float(state["sums"][name])
            self._counts[name] = int(state["counts"][name])
