import sys
from types import SimpleNamespace

import pytest

from agent57.config import ConfigError
from agent57.presets import make_config
from agent57.storage.wandb_mirror import WandbMirror
from tests.reports.made_up_runs import write_run
from tests.trained_run import call


class FakeWandb:
    """Records its arguments."""

    def __init__(self) -> None:
        self.begun: list[dict] = []
        self.rows: list[tuple[dict, int]] = []
        self.num_finished = 0

    def init(self, **about):
        self.begun.append(about)
        return SimpleNamespace(
            log=lambda row, step: self.rows.append((row, step)), finish=self._finish
        )

    def _finish(self):
        self.num_finished += 1


def test_new_lines_are_sent_once_and_half_lines_wait(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    run = write_run(tmp_path / "a", num_lines=3)
    with WandbMirror(run, make_config("agent57", "tiny")) as mirror:  # it has three lines
        assert fake.begun == []
        with (run / "metrics.jsonl").open("a") as file:
            file.write('{"frames": 7, "loss/rnd": 1.0}\n{"frames": 8')
        mirror.send_new_lines()
        assert fake.rows == [({"frames": 7, "loss/rnd": 1.0}, 7)]
        with (run / "metrics.jsonl").open("a") as file:
            file.write("}\n")
    assert [step for _, step in fake.rows] == [7, 8]
    assert fake.begun[0]["config"]["run"]["agent"] == "agent57"
    assert fake.num_finished == 1


def test_lines_written_after_a_resumed_run_was_cut_back_are_sent(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    run = write_run(tmp_path / "a", num_lines=3)
    with WandbMirror(run, make_config("agent57", "tiny")) as mirror:
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text(lines[0])
        mirror.send_new_lines()
        with (run / "metrics.jsonl").open("a") as file:
            file.write('{"frames": 7}\n')
        mirror.send_new_lines()
    assert fake.rows == [({"frames": 7}, 7)]


def test_without_the_package_nothing_is_created(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"pip install 'agent57\[wandb\]'"):
        WandbMirror(tmp_path, make_config("agent57", "tiny"))
    code, text = call("train", "--env", "toy/chain", "--wandb", "--out", tmp_path / "run")
    assert code == 2
    assert text.count("\n") == 1
    assert not (tmp_path / "run").exists()
