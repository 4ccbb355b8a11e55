"""The examples run, at a scale of seconds."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import agent57
from agent57.presets import SCALES
from tests.house.names import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(agent57, "TORCH_CAME_FIRST", False)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_here() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if not path.name.startswith("__")}
    assert names == {
        "train_and_load.py",
        "own_environment.py",
        "own_intrinsic_reward.py",
        "compare_agents.py",
        "notebook.ipynb",
    }
    assert "tiny" in SCALES


def test_train_and_load(tmp_path: Path) -> None:
    assert example("train_and_load").main(300, str(tmp_path / "run"), "tiny") >= 8


def test_own_environment(tmp_path: Path) -> None:
    module = example("own_environment")
    assert 0 <= module.main(400, str(tmp_path / "run")) <= 1
    assert agent57.Run(tmp_path / "run").policy().spec.num_beside == 1


def test_own_intrinsic_reward(tmp_path: Path) -> None:
    assert example("own_intrinsic_reward").main(300, str(tmp_path / "run")) <= 1
    run = agent57.Run(tmp_path / "run")
    assert run.config.curiosity.own_reward == "counts"
    assert 0 < run.metrics()["reward/intrinsic"][-1] <= 1  # of a count: 1 / sqrt(n)


def test_compare_agents(tmp_path: Path) -> None:
    module = example("compare_agents")
    found = module.main(120, str(tmp_path), num_seeds=1)
    assert {name: len(scores) for name, scores in found.items()} == {"agent57": 1, "r2d2": 1}
    assert module.interval([1.0, 1.0]) == (1.0, 1.0)
    low, high = module.interval([0.0, 1.0, 2.0])
    assert 0 <= low < 1 < high <= 2


def test_the_notebook(tmp_path: Path) -> None:
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    exec(f'FRAMES, OUT, SCALE = 300, {str(tmp_path / "run")!r}, "tiny"', names)
    for text in code[1:]:  # the first sets what was just set
        exec(text, names)
    assert names["policy"].spec.name == "CartPole-v1"
