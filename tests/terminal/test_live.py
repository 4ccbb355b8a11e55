"""The view of a run: a live panel on a terminal, a line per record elsewhere."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from agent57.config import Config
from agent57.terminal.live import TerminalView, cluster_panel, duration
from tests.small import changed

CONFIG = changed(Config(), run={"frames": 1_000_000})
COUNTERS = {"frames": 250_000, "steps": 62_500, "updates": 1234}
LATEST: dict[str, Any] = {
    **COUNTERS,
    "seconds": 100.0,
    "frames_per_second": 2500.0,
    "episode/return": -20.5,
    "evaluator/return": 17.25,
    "evaluator/best_arm": 3,
    "evaluator/best_beta": 0.1,
    "evaluator/best_gamma": 0.9985,
    "reward/intrinsic": 0.42,
    "loss/extrinsic": 0.0123,
    "loss/intrinsic": 4.5,
    "loss/rnd": 0.7,
}


def show(latest: dict[str, Any], *, is_terminal: bool, times: int = 1, width: int = 100) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=is_terminal, width=width)
    with TerminalView(CONFIG, console, "agent57 on pong") as view:
        for _ in range(times):
            view.show(COUNTERS, latest, seconds=100.0)
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", output.getvalue())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 min 00 s"), (61, "1 min 01 s"), (3599.9, "59 min 59 s"), (3600, "1 h 00 min"),
     (90_000, "25 h 00 min")],
)  # fmt: skip
def test_durations_by_hand(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_panel_shows_what_matters() -> None:
    text = show(LATEST, is_terminal=True)
    for word in (
        "agent57 on pong", "250,000 / 1,000,000", "2,500", "1,234", "5 min 00 s", "-20.5",
        "17.25", "3 (beta 0.1, gamma 0.9985)", "0.42", "loss/extrinsic", "0.0123",
        "loss/intrinsic", "4.5", "loss/rnd",
    ):  # fmt: skip
        assert word in text, word


def test_a_run_that_went_a_step_too_far_has_no_time_left() -> None:
    text = show({**LATEST, "frames": 1_000_192}, is_terminal=False)
    assert "left 0 min 00 s" in text


def test_the_panel_can_be_shown_before_the_first_record() -> None:
    text = show({}, is_terminal=True)
    assert "250,000 / 1,000,000" in text
    assert "unknown" in text


def test_without_a_terminal_each_record_is_one_line() -> None:
    text = show(LATEST, is_terminal=False, times=3, width=40)
    assert text.count("\n") == 1
    for word in ("frames 250,000", "2,500/s", "updates 1,234", "left 5 min 00 s", "return -20.5",
                 "evaluator 17.25", "best arm 3", "intrinsic 0.42", "loss e 0.0123"):  # fmt: skip
        assert word in text, word


def test_without_a_terminal_nothing_is_shown_before_the_first_record() -> None:
    assert show({}, is_terminal=False) == ""


def test_a_cluster_has_a_panel_of_its_own() -> None:
    live = {
        "cluster/actors_playing": 9,
        "cluster/actors_held_back": 1,
        "cluster/samples_per_insert": 1.5378,
        "cluster/lost_transitions": 4321,
        "cluster/actor_restarts": 7,
        **{f"cluster/frames_per_second/{k}": 1000.0 + k for k in range(10)},
        **{f"cluster/weights_age/{k}": 20 + k for k in range(10)},
    }
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120)
    with TerminalView(CONFIG, console, "agent57 on pong") as view:
        view.show(COUNTERS, LATEST, 100.0, live)
    text = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", output.getvalue())
    for word in (
        "250,000 / 1,000,000", "actors wait for the learner", "actors playing", "1.538", "4,321",
        "7 / - / - / -", "3: 1,003 frames/s, weights 23 old", "and 2 more",
    ):  # fmt: skip
        assert word in text, word


def test_the_panel_of_64_actors_fits_a_terminal() -> None:
    live = {
        "cluster/actors_playing": 64,
        **{f"cluster/frames_per_second/{k}": 1000.0 + k for k in range(64)},
        **{f"cluster/weights_age/{k}": 20 + k for k in range(64)},
    }
    output = io.StringIO()
    console = Console(file=output, width=80)
    console.print(cluster_panel(live))
    lines = output.getvalue().splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    assert "7: 1,007 frames/s" in output.getvalue()
    assert "and 56 more" in output.getvalue()
