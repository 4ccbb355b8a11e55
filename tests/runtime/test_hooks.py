"""Callbacks with which a program listens to a run."""

from typing import Any

from agent57.runtime.hooks import Hooks


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
