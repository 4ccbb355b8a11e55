"""Looks after a training loop: signals, callbacks, the terminal view and regular checkpoints."""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from agent57.envs.spec import EnvironmentFault
from agent57.runtime.watchdog import STOP_SIGNALS, Watchdog

VIEW_SECONDS = 0.5

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


class Session:
    """One session of a run, from its start or resumption until it stops.

    Ctrl-C, SIGTERM and a closed terminal stop it after the current step.

    `save` starts a checkpoint and returns whether it did. If it did not, it is called again after
    the next step. A new run (`is_new`) saves after its first step, so that a full disk is noticed
    at once. Only the monotonic clock is read. Python delivers signals to the main thread only. So a
    session in another thread installs no handlers, and stops when `hooks` say so. While `watchdog`
    reports an overdue environment call, a signal interrupts this call.
    """

    def __init__(
        self,
        show: Callable[[Any], None],
        save: Callable[[], bool],
        checkpoint_seconds: float,
        is_new: bool,
        hooks: Hooks | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._show = show
        self._watchdog = watchdog
        self._save = save
        self._hooks = hooks
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
        if self._hooks is not None and self._hooks.is_stopping:
            self.is_stopping = True
        now = time.monotonic()
        if now - self._last_show >= VIEW_SECONDS:
            self._last_show = now
            self._show(parts)
        if now >= self._next_save and self._save():
            self._next_save = time.monotonic() + self._checkpoint_seconds
