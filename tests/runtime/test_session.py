"""By contract: signals and callbacks stop a run after its step; checkpoints come on time."""

import os
import signal
import time
from typing import Any

import pytest

from agent57.runtime import session as module
from agent57.runtime.session import Hooks, Session


class Clock:
    def __init__(self, patch):
        self.now = 1000.0
        patch.setattr(module.time, "monotonic", lambda: self.now)
        patch.setattr(time, "time", lambda: 0.0)  # the wall clock must not matter


def make(saves, *, is_new=False, answer=True, seconds=10.0):
    def save():
        saves.append(time.monotonic())
        return answer

    return Session(lambda _: None, save, seconds, is_new)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_after_the_step(number):
    outside = signal.signal(number, signal.SIG_DFL)  # under nohup, SIGHUP would be ignored
    try:
        with make([]) as session:
            assert not session.is_stopping
            os.kill(os.getpid(), number)
            assert session.is_stopping
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, outside)


def test_the_second_interrupt_no_longer_waits_but_a_second_termination_does():
    with make([]) as session:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert session.is_stopping
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_run_under_nohup_keeps_ignoring_hangups():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with make([]) as session:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not session.is_stopping
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("is_new", [True, False])
def test_checkpoints_come_in_time_and_the_first_at_once(is_new, monkeypatch):
    clock, saves = Clock(monkeypatch), []
    session = make(saves, is_new=is_new)
    for _ in range(26):
        session.tick(None)
        clock.now += 1
    assert saves == ([1000, 1010, 1020] if is_new else [1010, 1020])


def test_a_checkpoint_that_cannot_begin_is_asked_for_again(monkeypatch):
    clock, saves = Clock(monkeypatch), []
    session = make(saves, answer=False)
    for _ in range(13):
        session.tick(None)
        clock.now += 1
    assert saves == [1010, 1011, 1012]


def test_the_view_is_not_asked_at_every_step(monkeypatch):
    clock, shown = Clock(monkeypatch), []
    session = Session(shown.append, lambda: True, 1e9, is_new=False)
    for _ in range(100):
        session.tick("parts")
        clock.now += 0.1
    assert 15 <= len(shown) <= 20


def test_only_true_stops_a_run() -> None:
    answers: list[Any] = [None, 1, "yes", False]
    hooks = Hooks(on_metrics=lambda _: answers.pop())
    while answers:
        hooks.metrics({})
        assert not hooks.is_stopping
    hooks = Hooks(on_episode=lambda _: True)
    hooks.metrics({})
    assert not hooks.is_stopping
    hooks.episode({})
    assert hooks.is_stopping


def test_a_callback_cannot_change_what_is_written() -> None:
    row = {"frames": 1}
    Hooks(on_metrics=lambda mine: mine.clear()).metrics(row)
    assert row == {"frames": 1}
