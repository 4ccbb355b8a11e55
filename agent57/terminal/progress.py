"""Prints text and the progress of a long command: a bar on a terminal, otherwise lines."""

import time
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from agent57.terminal.live import duration

LINE_SECONDS = 15.0


def waiting(console: Console, text: str) -> AbstractContextManager[object]:
    """Show a spinner on a terminal until the block ends; elsewhere show nothing."""
    if not console.is_terminal or console.quiet:
        return nullcontext()
    return console.status(Text(f"{text} ..."), spinner="dots")


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a text unchanged: without markup, highlights or additional line breaks."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


class ProgressView:
    """Shows how many of `total` episodes are played."""

    def __init__(self, console: Console, label: str, total: int) -> None:
        self._console = console
        self._label = label
        self._total = total
        self._started = self._last_line = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("episodes"),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(label, total=total)

    def __enter__(self) -> "ProgressView":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def show(self, done: int) -> None:
        """Show how many episodes are played."""
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done)
            return
        now = time.monotonic()
        if now - self._last_line < LINE_SECONDS:
            return
        self._last_line = now
        elapsed = now - self._started
        left = f", left {duration(elapsed * (self._total - done) / done)}" if done else ""
        say(self._console, f"{self._label}: {done} of {self._total} episodes{left}")
