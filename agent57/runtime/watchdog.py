"""A thread that watches the environment calls of the training thread.

An environment that hangs blocks the training loop, which then cannot react to signals either. The
watchdog warns which call hangs. Once the run was told to stop, it interrupts the call. If the
environment swallows the interruption, it ends the process. Checkpoints on disk are not touched.
"""

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable

from agent57.envs.lanes import pending_call

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_SECONDS = 0.5
SLOW_SECONDS = 60.0  # duration of a call at the first warning; it doubles for each later warning
STOP_SECONDS = 20.0  # time left for a call once the run was told to stop
END_SECONDS = 5.0  # further time before the process is ended


class Watchdog:
    """Watches the thread that creates it.

    `warn` prints a line. `abandon` is called with the reason when only ending the process helps.
    """

    def __init__(self, warn: Callable[[str], None], abandon: Callable[[str], None]) -> None:
        self._warn = warn
        self._abandon = abandon
        self._watched = threading.get_ident()
        self._ear, self._mouth = socket.socketpair()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._is_over = False
        self._told_to_stop: float | None = None  # time of the request, on the monotonic clock
        self._slow_call = ("", 0.0)  # the call that the last line was about
        self._next_line = SLOW_SECONDS
        self.overdue = ""  # why the running call must be interrupted; "" if it need not be

    def __enter__(self) -> "Watchdog":
        for end in (self._ear, self._mouth):
            end.setblocking(False)
        # Python's signal handlers run only after C code returns. A byte in this socket comes at
        # once.
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        with contextlib.suppress(OSError):
            self._mouth.send(b"\0")  # wakes the thread up
        self._thread.join()
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._previous)
        for end in (self._ear, self._mouth):
            with contextlib.suppress(OSError):
                end.close()

    def _watch(self) -> None:
        while not self._is_over:
            if self._heard():
                self._told_to_stop = self._told_to_stop or time.monotonic()
            self._look(time.monotonic())

    def _heard(self) -> bool:
        """Wait up to LOOK_SECONDS; return whether a signal to stop came."""
        try:
            if not select.select([self._ear], [], [], LOOK_SECONDS)[0]:
                return False
            return any(number in STOP_SIGNALS for number in self._ear.recv(4096))
        except (OSError, ValueError):  # other code closed the socket: go on without it
            time.sleep(LOOK_SECONDS)
            return False

    def _look(self, now: float) -> None:
        call = pending_call(self._watched)
        if call is None:
            return
        text, since = call
        if call != self._slow_call:
            self._slow_call, self._next_line = call, SLOW_SECONDS
        if now - since >= self._next_line:
            self._next_line *= 2
            self._warn(f"{text} has been under way for {now - since:.0f} s")
        if self._told_to_stop is None:
            return
        waited = now - max(since, self._told_to_stop)
        reason = f"{text} did not end within {STOP_SECONDS:g} s of the request to stop"
        if waited >= STOP_SECONDS and not self.overdue:
            self.overdue = reason
            signal.pthread_kill(self._watched, signal.SIGTERM)  # its handler raises
        elif waited >= STOP_SECONDS + END_SECONDS:
            self._abandon(reason)


def end_process() -> None:
    """End this process and its children at once as a failure, without any clean-up."""
    import multiprocessing

    for child in multiprocessing.active_children():
        child.kill()
    os._exit(1)
