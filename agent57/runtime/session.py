"""What goes on around a training loop: signals, the terminal view, checkpoints in time."""

import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Protocol

from agent57.envs.spec import EnvironmentFault
from agent57.replay.block import Block
from agent57.runtime.watchdog import STOP_SIGNALS, Watchdog

VIEW_SECONDS = 0.5


def never() -> bool:
    """Let a session go on."""
    return False


class Parts(Protocol):
    """What a run needs of its parts, wherever they live."""

    @property
    def oldest_block(self) -> int:
        """The lowest id of the replay's blocks at the time of `state_dict`."""
        ...

    def counters(self) -> dict[str, int]:
        """How far the run has come."""
        ...

    def live(self) -> dict[str, float]:
        """What the view shows beside the latest line of metrics."""
        ...

    def lanes(self) -> dict[str, list[dict[str, Any]]]:
        """Tell what a few lanes of the evaluator and of the actors are doing, to be shown."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on, but for the replay's blocks."""
        ...

    def summary(self) -> dict[str, float | None]:
        """What the parts say of themselves when a line of metrics is written."""
        ...

    def learner_state(self) -> dict[str, Any]:
        """The learner alone."""
        ...

    def blocks(self, first_id: int) -> Iterable[tuple[int, Block]]:
        """The replay's blocks at the time of `state_dict` and their ids, from `first_id` on."""
        ...

    def load_state_dict(
        self, state: dict[str, Any], blocks: Iterable[tuple[int, bytes]], first_block: int
    ) -> int:
        """Go on from `state` and the blocks, of which those before `first_block` are lost.

        How many running episodes were dropped.
        """
        ...


class Session:
    """One sitting of a run. Ctrl-C, SIGTERM and a closed terminal stop it after the current step.

    `save` starts a checkpoint and says whether it did; one that did not is asked again after the
    next step. The first is asked for after the first step if `is_new`, so that a disk that cannot
    be written to is known at once. Only the monotonic clock is looked at. `wants_stop` is asked
    after each step. Python delivers signals to the main thread only, so a session in another
    thread leaves the handlers alone and stops when `wants_stop` says so. `watchdog` knows when an
    environment call is overdue: the next signal breaks the call off.
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
            # A run under nohup ignores a closed terminal, and keeps ignoring it.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._previous_handlers[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        """Stop after the current step; the second Ctrl-C no longer waits."""
        if self._watchdog is not None and self._watchdog.overdue:
            raise EnvironmentFault(self._watchdog.overdue)
        if self.is_stopping and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_stopping = True

    def tick(self, parts: Parts) -> None:
        """Called after each step."""
        if self._wants_stop():
            self.is_stopping = True
        now = time.monotonic()
        if now - self._last_show >= VIEW_SECONDS:
            self._last_show = now
            self._show(parts)
        if now >= self._next_save and self._save():
            self._next_save = time.monotonic() + self._checkpoint_seconds
