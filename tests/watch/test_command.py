from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("starlette", reason="agent57[watch] is not installed")

from agent57 import cli
from agent57.watch import server
from tests.reports.made_up_runs import write_run


def run(*args: str) -> tuple[int, str, str]:
    console, errors = Console(width=200, record=True), Console(width=200, record=True, stderr=True)
    code = cli.run(["watch", *args], console, errors)
    return code, console.export_text(), errors.export_text()


def test_the_address_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    monkeypatch.setattr(server, "serve", lambda *args: served.append(args))
    code, said, _ = run(str(write_run(tmp_path / "run")), "--port", "0")
    assert code == 0
    assert said.startswith("watch: http://127.0.0.1:")
    assert "token" not in said
    _, said, _ = run(str(tmp_path / "run"), "--port", "0", "--host", "0.0.0.0")
    assert "/?token=" in said
    assert [token is None for _, _, token in served] == [True, False]


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    code, _, error = run(str(tmp_path / "nothing"))
    assert code == cli.USAGE_ERROR
    assert error.strip().endswith("nothing is not a folder")
    assert len(error.strip().splitlines()) == 1
