from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("starlette", reason="agent57[watch] is not installed")

from agent57 import cli
from agent57.commands.watch import PageProcess
from agent57.watch import server
from tests.reports.made_up_runs import write_run


def run(*args: str) -> tuple[int, str, str]:
    console, errors = Console(width=200, record=True), Console(width=200, record=True, stderr=True)
    code = cli.run(["watch", *args], console, errors)
    return code, console.export_text(), errors.export_text()


def test_the_address_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    monkeypatch.setattr(server, "serve", lambda *args, trust: served.append((*args, trust)))
    code, said, _ = run(str(write_run(tmp_path / "run")), "--port", "0")
    assert code == 0
    assert said.startswith("watch: http://127.0.0.1:")
    assert "token" not in said
    _, said, _ = run(str(tmp_path / "run"), "--port", "0", "--host", "0.0.0.0")
    assert "/?token=" in said
    run(str(tmp_path / "run"), "--port", "0", "--trust")
    assert [token is None for _, _, token, _ in served] == [True, False, True]
    assert [trust for *_, trust in served] == [False, False, True]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    code, _, error = run(str(tmp_path / "nothing"))
    assert code == cli.USAGE_ERROR
    assert error.strip().endswith("nothing is not a folder")
    assert len(error.strip().splitlines()) == 1


def test_a_page_process_serves_a_run_that_is_about_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **_: object) -> None:
            started.append(command)
            self.is_over = False

        def terminate(self) -> None:
            self.is_over = True

        def wait(self) -> None:
            assert self.is_over

    monkeypatch.setattr("agent57.commands.watch.subprocess.Popen", Process)
    with PageProcess(tmp_path / "run"):
        pass
    assert started[0][1:4] == ["-m", "agent57", "watch"]
    assert {"--wait", "--trust"} <= set(started[0])


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("agent57.commands.watch.find_spec", lambda name: None)
    code, _, error = run(str(write_run(tmp_path / "run")))
    assert code == cli.USAGE_ERROR
    assert error.strip() == (
        "agent57: the live page needs starlette and uvicorn: pip install 'agent57[watch]'"
    )
