"""Runs the examples, each within seconds."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

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
        "own_family.py",
        "own_torso_and_controller.py",
        "adapters.py",
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
    assert 0 < run.metrics()["reward/intrinsic"][-1] <= 1  # 1 / sqrt(n) of a count n


def test_own_family(tmp_path: Path) -> None:
    example("own_family").main(300, str(tmp_path / "run"))
    family = agent57.Run(tmp_path / "run").config.family
    assert family.betas == (0.0, 0.0, 0.2, 0.2)
    assert family.gammas == (0.99, 0.9, 0.99, 0.9)


def test_own_torso_and_controller(tmp_path: Path) -> None:
    module = example("own_torso_and_controller")
    module.main(300, str(tmp_path / "run"))
    run = agent57.resume(tmp_path / "run", frames=400, view="quiet")
    assert run.frames >= 400
    assert (run.config.network.own_torso, run.config.controller.own) == ("mlp", "thompson")
    assert run.policy().spec.kind == "vector"


def test_thompson_sweeps_then_prefers_what_returned_most() -> None:
    module = example("own_torso_and_controller")
    bandit = module.Thompson(None, 3, 0, np.random.default_rng(0))
    for _ in range(3):
        arm = bandit.select()
        bandit.observe(arm, float(arm))
    counts, means = bandit.statistics()
    assert counts.tolist() == [1, 1, 1]
    assert means.tolist() == [0, 1, 2]
    assert bandit.best() == 2
    for _ in range(60):
        arm = bandit.select()
        bandit.observe(arm, float(arm))
    assert np.argmax(bandit.statistics()[0]) == 2
    again = module.Thompson(None, 3, 0, np.random.default_rng(7))
    again.load_state_dict(bandit.state_dict())
    assert [again.select() for _ in range(5)] == [bandit.select() for _ in range(5)]


class OldGame:
    """Replaces crafter: `reset` takes no seed, and `step` returns four values."""

    observation_space = SimpleNamespace(shape=(8, 8, 3))
    action_space = SimpleNamespace(n=2)
    action_names = ("wait", "die")

    def __init__(self, length: int, seed: int | None = None) -> None:
        self.length, self.seed, self.num_steps = length, seed, 0

    def reset(self) -> np.ndarray:
        return np.full((8, 8, 3), (self.seed or 0) % 256, np.uint8)

    def render(self, size: tuple[int, int] | None = None) -> np.ndarray:
        return np.zeros((*(size or (8, 8)), 3), np.uint8)  # an array has no truth value

    def step(self, action: int) -> tuple[np.ndarray, float, bool, dict[str, float]]:
        self.num_steps += 1
        is_over = action == 1 or self.num_steps >= self.length
        return self.reset(), 1.0, is_over, {"discount": float(action == 0)}


def test_crafter_in_the_interface_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "crafter", SimpleNamespace(Env=OldGame))
    env = example("adapters").crafter(length=2)
    first, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, env.reset(seed=3)[0])
    assert (first != env.reset(seed=4)[0]).any()
    assert env.step(0)[1:4] == (1.0, False, False)
    assert env.step(0)[2:4] == (False, True)  # its time is up
    env.reset()
    assert env.step(1)[2:4] == (True, False)  # dead
    assert env.get_action_meanings() == ["wait", "die"]
    assert env.render().shape == (256, 256, 3)


def test_a_small_screen_keeps_the_other_parts() -> None:
    class Doom(gymnasium.Env[Any, Any]):
        observation_space = spaces.Dict(
            {"screen": spaces.Box(0, 255, (240, 320, 3), np.uint8), "ammo": spaces.Discrete(5)}
        )
        action_space = spaces.Discrete(2)

    env = example("adapters").small_screen(Doom())
    screen = np.full((240, 320, 3), 200, np.uint8)
    seen = env.observation({"screen": screen, "ammo": 3})
    assert env.observation_space.contains(seen)
    assert (seen["screen"] == 200).all()
    assert seen["ammo"] == 3


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
    for text in code[1:]:  # the first cell sets the names that were just set
        exec(text, names)
    assert names["policy"].spec.name == "CartPole-v1"
