"""What goes on around a training loop: signals, the terminal view, checkpoints in time."""

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

VIEW_SECONDS = 0.5


class Viewable(Protocol):
    """What the view shows of a running training."""

    def counters(self) -> dict[str, int]:
        """How far the run has come."""
        ...


class Session:
    """One sitting of a run. Ctrl-C and SIGTERM ask it to stop after the current step."""

    def __init__(
        self,
        show: Callable[[Any], None],
        save: Callable[[], None],
        checkpoint_seconds: float,
    ) -> None:
        self._show = show
        self._save = save
        self._checkpoint_seconds = checkpoint_seconds
        self._last_save = self._last_show = time.monotonic()
        self._previous_handlers: dict[int, Any] = {}
        self.is_stopping = False

    def __enter__(self) -> "Session":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous_handlers[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        """Stop after the current step; the second Ctrl-C no longer waits."""
        if self.is_stopping and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_stopping = True

    def tick(self, parts: Viewable) -> None:
        """Called after each step."""
        now = time.monotonic()
        if now - self._last_show >= VIEW_SECONDS:
            self._last_show = now
            self._show(parts)
        if now - self._last_save >= self._checkpoint_seconds:
            self._save()
            self._last_save = time.monotonic()
