"""Batches made ahead of need by a thread of their own, for runtimes where learning runs alone."""

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from agent57.types import Batch


class Prefetch:
    """Keeps up to `depth` results of `sample` ready.

    Batches come in the order they were sampled. An exception of `sample` is raised by `get` once
    the batches before it have been handed out.
    """

    def __init__(self, sample: Callable[[], Batch], depth: int) -> None:
        if depth < 1:
            raise ValueError(f"depth must be positive, got {depth}")
        self._sample = sample
        self._depth = depth
        self._ready: deque[Batch] = deque()
        self._error: BaseException | None = None
        self._is_stopped = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="replay-prefetch", daemon=True)
        self._thread.start()

    def get(self) -> Batch:
        """The next batch, as soon as it is there."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._error or self._is_stopped)
            if self._ready:
                batch = self._ready.popleft()
                self._changed.notify_all()
                return batch
            if self._error is not None:
                raise self._error
            raise RuntimeError("prefetch has been stopped")

    def stop(self) -> None:
        """End the thread and forget what is ready. May be called again."""
        with self._changed:
            self._is_stopped = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        try:
            while self._has_room():
                batch = self._sample()
                with self._changed:
                    if not self._is_stopped:
                        self._ready.append(batch)
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - handed to the consumer
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _has_room(self) -> bool:
        """Wait until a batch is wanted; False when there is none to come."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or len(self._ready) < self._depth)
            return not self._is_stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
