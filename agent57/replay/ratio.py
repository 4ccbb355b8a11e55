"""How many updates the inserted windows pay for: the only throttle between acting and learning."""

from agent57.config import ReplayConfig


class SamplesPerInsert:
    """Keeps the number of sampled windows at `samples_per_insert` times the inserted ones.

    Counting starts when `min_windows` are there: the warm-up owes nothing, so learning sets in at
    its steady pace and not with a burst. The two sides never drift apart by more than one batch
    (learning ahead) or `slack_updates` (acting ahead, where it is asked).
    """

    def __init__(self, config: ReplayConfig) -> None:
        self._min_windows = config.min_windows
        self._samples_per_insert = config.samples_per_insert

    def updates_owed(self, num_windows_inserted: int, num_updates: int, batch_size: int) -> int:
        """How many updates the learner should make now."""
        if num_windows_inserted < self._min_windows:
            return 0
        return max(0, int(self._earned(num_windows_inserted) // batch_size) + 1 - num_updates)

    def may_insert(
        self, num_windows_inserted: int, num_updates: int, batch_size: int, slack_updates: int
    ) -> bool:
        """Whether acting may go on, rather than wait for a learner this many updates behind."""
        if num_windows_inserted < self._min_windows:
            return True
        owed = self._earned(num_windows_inserted) - num_updates * batch_size
        return owed <= slack_updates * batch_size

    def _earned(self, num_windows_inserted: int) -> float:
        return self._samples_per_insert * (num_windows_inserted - self._min_windows)
