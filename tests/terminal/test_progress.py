import io

from rich.console import Console

from agent57.terminal import progress
from agent57.terminal.progress import ProgressView, waiting


def test_without_a_terminal_a_line_now_and_then_says_what_is_left(monkeypatch):
    clock = iter([0.0, 15.5, 20.0, 35.5, 36.0, 60.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    text = io.StringIO()
    with ProgressView(Console(file=text, width=100), "playing", 10) as view:
        view.show(0)
        view.show(1)
        view.show(3)
        view.show(4)
        view.show(5)
    assert text.getvalue().splitlines() == [
        "playing: 0 of 10 episodes",
        "playing: 3 of 10 episodes, left 1 min 22 s",
        "playing: 5 of 10 episodes, left 1 min 00 s",
    ]


def test_on_a_terminal_a_bar_shows_the_count():
    text = io.StringIO()
    console = Console(file=text, width=100, force_terminal=True)
    with ProgressView(console, "playing", 10) as view:
        view.show(4)
    assert "4/10" in text.getvalue()


def test_a_wait_is_seen_on_a_terminal_only_and_leaves_nothing_behind():
    text = io.StringIO()
    console = Console(file=text, width=100, force_terminal=True)
    with waiting(console, "preparing [red]pong"):
        pass
    assert "preparing [red]pong ..." in text.getvalue()
    assert text.getvalue().rstrip("\r").endswith("\x1b[2K")  # the line was erased
    log = io.StringIO()
    with waiting(Console(file=log), "preparing"), waiting(Console(quiet=True), "preparing"):
        pass
    assert log.getvalue() == ""
