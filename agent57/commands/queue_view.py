"""Shows the progress of a queue of runs: a live table on a terminal, else a line per minute."""

import time

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agent57.experiments.jobs import Progress
from agent57.terminal.live import duration

LINE_SECONDS = 60.0
MAX_ROWS = 20  # rows of the table; a longer queue shows only running jobs


class QueueView:
    """Shows the progress of a queue; a context manager that clears the table at its end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=2, transient=True)
        self._last_line = time.monotonic()

    def __enter__(self) -> "QueueView":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, text: str) -> None:
        """Replace the table by a line of text, on a terminal."""
        self._live.update(Text(text))

    def show(self, progress: Progress) -> None:
        """Update the table, or print a line if the last line is old."""
        if self._console.is_terminal:
            self._live.update(_table(progress))
        elif time.monotonic() - self._last_line > LINE_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(_summary(progress), highlight=False)


def _summary(progress: Progress) -> str:
    left = "unknown" if progress.seconds_left is None else duration(progress.seconds_left)
    runs = f"{progress.num_finished} of {len(progress.rows)} runs finished"
    return f"{progress.share:.0%}, {runs}, time left {left}"


def _table(progress: Progress) -> Table:
    table = Table("run", "state", "frames", title=_summary(progress))
    for name, state, done, total in progress.rows:
        if state == "running" or len(progress.rows) <= MAX_ROWS:
            table.add_row(name, state, f"{done:,} / {total:,}")
    return table
