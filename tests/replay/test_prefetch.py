import threading
import time

import pytest

from agent57.replay.prefetch import Prefetch


class Counting:
    """Stands in for sampling: 0, 1, 2, ..."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.num_calls = 0
        self._fails_at = fails_at

    def __call__(self):
        if self.num_calls == self._fails_at:
            raise RuntimeError("no batch here")
        self.num_calls += 1
        return self.num_calls - 1


def wait_until(condition) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_batches_come_in_order():
    with Prefetch(Counting(), depth=3) as prefetch:
        assert [prefetch.get() for _ in range(50)] == list(range(50))


def test_no_more_than_depth_is_made_ahead():
    counting = Counting()
    with Prefetch(counting, depth=3) as prefetch:
        wait_until(lambda: counting.num_calls == 3)
        time.sleep(0.02)
        assert counting.num_calls == 3
        prefetch.get()
        wait_until(lambda: counting.num_calls == 4)


def test_an_exception_reaches_the_consumer_after_the_batches_before_it():
    with Prefetch(Counting(fails_at=2), depth=5) as prefetch:
        assert [prefetch.get(), prefetch.get()] == [0, 1]
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no batch here"):
                prefetch.get()


def test_stop_ends_the_thread_and_those_who_wait():
    before = threading.active_count()
    hold = threading.Event()
    prefetch = Prefetch(lambda: hold.wait(5), depth=1)
    failures = []

    def consume():
        try:
            prefetch.get()
            prefetch.get()
        except RuntimeError as error:
            failures.append(str(error))

    consumer = threading.Thread(target=consume)
    consumer.start()
    stopper = threading.Thread(target=prefetch.stop)
    stopper.start()
    hold.set()
    stopper.join(5)
    consumer.join(5)
    prefetch.stop()
    assert failures == ["prefetch has been stopped"]
    assert threading.active_count() == before


def test_depth_is_positive():
    with pytest.raises(ValueError, match="depth"):
        Prefetch(Counting(), depth=0)
