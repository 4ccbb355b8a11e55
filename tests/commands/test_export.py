import csv

import pytest

from agent57.commands.export import export_csv
from agent57.config import ConfigError
from tests.reports.made_up_runs import write_lines, write_run


def test_every_scalar_has_a_column_and_gaps_are_empty(tmp_path):
    run = write_run(tmp_path / "a")
    write_lines(run / "metrics.jsonl", [{"frames": 1}, {"frames": 2, "loss/rnd": 0.5}])
    assert export_csv(run, "metrics", tmp_path / "deep" / "a.csv") == (2, [])
    rows = list(csv.DictReader((tmp_path / "deep" / "a.csv").open()))
    assert rows == [{"frames": "1", "loss/rnd": ""}, {"frames": "2", "loss/rnd": "0.5"}]


def test_episodes_can_be_exported(tmp_path):
    run = write_run(tmp_path / "a", num_episodes=7)
    assert export_csv(run, "episodes", tmp_path / "e.csv") == (7, [])
    assert "return" in (tmp_path / "e.csv").read_text().splitlines()[0]


def test_bad_names_are_refused(tmp_path):
    run = write_run(tmp_path / "a")
    with pytest.raises(ConfigError, match="--table 'x' is not one of metrics, episodes"):
        export_csv(run, "x", tmp_path / "a.csv")
    with pytest.raises(ConfigError, match="holds no run"):
        export_csv(tmp_path, "metrics", tmp_path / "a.csv")


def test_damaged_lines_are_left_out_and_named(tmp_path):
    run = write_run(tmp_path / "a")
    (run / "metrics.jsonl").write_bytes(b'{"frames": 1}\n{"fra\xff\n[]\n{"frames": 2}\n{"fr')
    rows, damage = export_csv(run, "metrics", tmp_path / "a.csv")
    assert rows == 2
    assert damage == [f"{run / 'metrics.jsonl'} is damaged in 2 lines: 2, 3"]
