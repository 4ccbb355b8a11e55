"""Looks after a training loop: signals, the terminal view and regular checkpoints."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from agent57.envs.spec import EnvironmentFault
from agent57.runtime.watchdog import STOP_SIGNALS, Watchdog

VIEW_SECONDS = 0.5


def never() -> bool:
    """Return False: never stop the session."""
    return False


class Session:
    """One session of a run, from its start or resumption until it stops.

    Ctrl-C, SIGTERM and a closed terminal stop it after the current step.

    `save` starts a checkpoint and returns whether it did. If it did not, it is called again after
    the next step. A new run (`is_new`) saves after its first step, so that a full disk is noticed
    at once. Only the monotonic clock is read. `wants_stop` is called after each step. Python
    delivers signals to the main thread only. So a session in another thread installs no handlers,
    and stops when `wants_stop` returns True. While `watchdog` reports an overdue environment call,
    a signal interrupts this call.
    """

    def __init__(
        self,
        show: Callable[[Any], None],
        save: Callable[[], bool],
        checkpoint_seconds: float,
        is_new: bool,
        wants_stop: Callable[[], bool] = never,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._show = show
        self._watchdog = watchdog
        self._save = save
        self._wants_stop = wants_stop
        self._checkpoint_seconds = checkpoint_seconds
        self._last_show = time.monotonic()
        self._next_save = self._last_show + (0.0 if is_new else checkpoint_seconds)
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self.is_stopping = False

    def __enter__(self) -> "Session":
        is_main = threading.current_thread() is threading.main_thread()
        for number in STOP_SIGNALS if is_main else ():
            # Keep ignoring SIGHUP under nohup.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._previous_handlers[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        """Stop after the current step; a second Ctrl-C stops at once."""
        if self._watchdog is not None and self._watchdog.overdue:
            raise EnvironmentFault(self._watchdog.overdue)
        if self.is_stopping and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_stopping = True

    def tick(self, parts: object) -> None:
        """Show `parts` and save, if it is time, after a step."""
        if self._wants_stop():
            self.is_stopping = True
        now = time.monotonic()
        if now - self._last_show >= VIEW_SECONDS:
            self._last_show = now
            self._show(parts)
        if now >= self._next_save and self._save():
            self._next_save = time.monotonic() + self._checkpoint_seconds
