"""docs/DIAGNOSE.md explains all metrics of a run, and names only settings that exist."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from agent57.config import Config
from tests.house.names import ROOT
from tests.house.test_house import knobs
from tests.runtime.runs import lines, run_config, train
from tests.small import small_config

PAGE = (ROOT / "docs" / "DIAGNOSE.md").read_text()
QUOTED = set(re.findall(r"`([^`\n]+)`", PAGE))


@pytest.mark.parametrize("agent", ["agent57", "ngu"])
def test_every_metric_is_explained(agent: str, tmp_path: Path) -> None:
    sections = {"family": small_config(agent).family, "network": small_config(agent).network}
    values = {name: vars(section) for name, section in sections.items()}
    train(run_config("toy/cue", 300, **values), tmp_path / "run")
    rows = lines(tmp_path / "run", "metrics.jsonl")
    metrics = {re.sub(r"/\d+$", "/j", name) for row in rows for name in row}
    assert {"loss/rnd", "action_gap/j", "arm_intrinsic_return/j"} <= metrics
    unexplained = {
        name for name in metrics if not any(fnmatch(name, pattern) for pattern in QUOTED)
    }
    assert not unexplained


def test_every_setting_it_names_exists() -> None:
    known = knobs(Config())
    sections = {name.split(".")[0] for name in known}
    named = {name for name in QUOTED if re.fullmatch(r"\w+\.\w+", name)}
    named = {name for name in named if name.split(".")[0] in sections}
    assert {"learner.clip_norm", "replay.priority_exponent"} <= named
    assert named <= known
