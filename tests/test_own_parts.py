"""Registered parts: they are used, saved and resumed, and a missing part is named."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import agent57
from agent57 import own_parts
from agent57.bandit import Controller, make_controller
from agent57.config import Config, ConfigError, ControllerConfig, FamilyConfig
from agent57.curiosity.own_reward import OwnCuriosity
from agent57.envs import gymnasium
from agent57.nets.networks import make_networks
from agent57.own_parts import (
    register_controller,
    register_family,
    register_intrinsic_reward,
    register_torso,
)
from tests.runtime.runs import difference, interrupted, result, run_config, train
from tests.small import SPEC, changed, small_config
from tests.trained_run import TINY, call


class Steps:
    """Rewards the number of steps in the episode."""

    def __init__(self, num_lanes: int, spec: Any) -> None:
        self.steps = torch.zeros(num_lanes, dtype=torch.int64)

    def begin(self, lanes: np.ndarray, observation: torch.Tensor) -> None:
        self.steps[torch.from_numpy(lanes)] = 0

    def reward(self, observation: torch.Tensor) -> np.ndarray:
        self.steps += 1
        return self.steps.numpy() / 10

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"].clone()


class LastArm(Controller):
    """Always plays the last arm."""

    def __init__(self, config: ControllerConfig, num_arms: int, lane: int, rng: Any) -> None:
        super().__init__(config, num_arms, rng, only_arm=num_arms - 1)


class Flat(nn.Module):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.dense = nn.Linear(int(np.prod(shape)), 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x.flatten(1)).tanh()


register_intrinsic_reward("tests/steps", Steps)
register_controller("tests/last", LastArm)
register_torso("tests/flat", Flat)
OWN: dict[str, dict[str, Any]] = {
    "curiosity": {"own_reward": "tests/steps"},
    "controller": {"own": "tests/last"},
    "network": {"own_torso": "tests/flat"},
}


def test_a_run_with_own_parts_uses_them_and_resumes_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = run_config("toy/cue", 120, **OWN)
    train(config, tmp_path / "whole")
    interrupted(config, tmp_path / "parts", [7, 9], monkeypatch)
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "parts"))
    run = agent57.Run(tmp_path / "whole")
    actors = run.episodes()["source"] == "actor"
    assert set(run.episodes()["arm"][actors]) == {config.family.arms - 1}
    length = run.episodes()["length"][actors]
    wanted = [sum(range(1, n + 1)) / 10 for n in length]
    np.testing.assert_allclose(run.episodes()["intrinsic_return"][actors], wanted, rtol=1e-5)
    names = result(run.path)["state"]["parts"]["learner"]["networks"]
    assert any("dense.weight" in name and names[name].shape[0] == 9 for name in names)

    run.policy().save(tmp_path / "own.agent57")
    policy = agent57.load(tmp_path / "own.agent57")
    state = policy.initial_state()
    observation = np.zeros(policy.spec.observation_shape, np.float32)
    for _ in range(3):
        policy.act(observation, state)
    assert state.intrinsic["novelty"] == pytest.approx(0.2)


def test_an_own_family_sets_the_arms_and_travels_without_registration(tmp_path: Path) -> None:
    def pairs(config: FamilyConfig) -> list[tuple[float, float]]:
        return [(0.0, 0.99), (config.max_beta / 2, 0.95), (config.max_beta, 0.9)]

    register_family("tests/three", pairs)
    config = run_config("toy/cue", 60, family={"own": "tests/three", "max_beta": 0.4})
    train(config, tmp_path / "run")
    own_parts.FAMILIES.clear()  # as in a program that registers nothing
    run = agent57.Run(tmp_path / "run")
    assert run.config.family.own == "tests/three"
    assert (run.config.family.arms, run.config.family.betas) == (3, (0.0, 0.2, 0.4))
    assert set(run.episodes()["gamma"]) <= {0.99, 0.95, 0.9}
    policy = agent57.load(run.path, arm=2)
    assert (policy.beta, policy.gamma) == (0.4, 0.9)
    resumed = agent57.resume(run.path, frames=90, view="quiet")
    assert resumed.is_finished
    with pytest.raises(ConfigError, match=r"family.own 'tests/three'.*register_family"):
        train(config, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([], "family.arms must be positive"),
        ([(0.1, 0.9)], "must start with 0"),
        ([(0.0, 1.0)], r"gammas must lie in \(0, 1\)"),
        ([(0.0, 0.9), (float("nan"), 0.9)], "betas must not be negative or infinite"),
        ([0.0, 0.9], "cannot unpack"),
    ],
)
def test_a_family_that_cannot_work_is_refused_by_name(pairs: Any, reason: str) -> None:
    register_family("tests/bad", lambda config: pairs)
    config = small_config(family={"own": "tests/bad"})
    with pytest.raises(ConfigError, match=f"family.own 'tests/bad' must return.*{reason}"):
        own_parts.with_own_family(config)


def test_a_checkpoint_names_the_part_that_is_not_registered(tmp_path: Path) -> None:
    train(run_config("toy/cue", 60, **OWN), tmp_path / "run")
    agent57.Run(tmp_path / "run").policy().save(tmp_path / "own.agent57")
    for known, field in (
        (own_parts.REWARDS, "curiosity.own_reward 'tests/steps'"),
        (own_parts.TORSOS, "network.own_torso 'tests/flat'"),
        (own_parts.CONTROLLERS, "controller.own 'tests/last'"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            for name in list(known):
                patch.delitem(known, name)
            message = f"{field} is not registered in this program: call agent57.register_"
            with pytest.raises(ConfigError, match=message):
                agent57.resume(tmp_path / "run", frames=90, view="quiet")
            if known is not own_parts.CONTROLLERS:  # acting needs no controller
                with pytest.raises(ConfigError, match=message):
                    agent57.load(tmp_path / "own.agent57").initial_state()
            with pytest.raises(ConfigError, match=message):
                train(run_config("toy/cue", 60, **OWN), tmp_path / "new")
            assert not (tmp_path / "new").exists()


def test_a_part_that_is_not_registered_is_named() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ConfigError, match=r"controller.own 'gone'.*register_controller\('gone'"):
        make_controller(ControllerConfig(own="gone"), 2, 0, rng)
    config = small_config(network={"own_torso": "gone"})
    with pytest.raises(ConfigError, match="network.own_torso 'gone' is not registered"):
        make_networks(config, SPEC)


def test_own_parts_stay_in_their_process() -> None:
    with pytest.raises(ConfigError, match="tests/steps.*set run.runtime to inline"):
        changed(Config(), run={"runtime": "cluster"}, curiosity={"own_reward": "tests/steps"})
    with pytest.raises(ConfigError, match="tests/last"):
        changed(Config(), run={"runtime": "cluster"}, evaluator_controller={"own": "tests/last"})


def test_a_reward_that_is_no_number_stops_the_run() -> None:
    part = Steps(2, None)
    part.reward = lambda _: np.array([np.nan, 1.0])  # type: ignore[method-assign]
    with pytest.raises(FloatingPointError, match="2 finite numbers"):
        OwnCuriosity(part, 2).reward(torch.zeros(2, 1))


OWN_MODULE = """
import agent57
from agent57.bandit import Controller
from tests.envs.test_own import Corridor as Task  # noqa: F401


class LastArm(Controller):
    def __init__(self, config, num_arms, lane, rng):
        super().__init__(config, num_arms, rng, only_arm=num_arms - 1)


agent57.register_controller("own module", LastArm)
"""


def test_a_controller_in_the_module_of_the_environment_is_found_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "own_module.py").write_text(OWN_MODULE)
    run, file = tmp_path / "run", tmp_path / "own.agent57"

    def forgotten(*args: str) -> tuple[int, str]:
        """Call a command as another program would, which has imported nothing."""
        sys.modules.pop("own_module", None)
        gymnasium.TRUSTED.clear()
        own_parts.CONTROLLERS.pop("own module", None)
        sys.path[:] = [path for path in sys.path if path not in ("", str(tmp_path))]
        return call(*args)

    options = ("--evaluator-controller.own", "own module", "--frames", "60", *TINY)
    code, text = forgotten("train", "--env", "own_module:Task", "--out", str(run), *options)
    assert code == 0, text
    assert f"agent57 resume {run} --trust" in text
    commands = (
        ("evaluate", str(run), "--episodes", "1"),
        ("export", str(run), "--weights", str(file)),
        ("resume", str(run), "--frames", "90"),
    )
    for command in commands:
        code, text = forgotten(*command)
        assert code == 2
        assert "would run" in text
        assert "give --trust" in text
        code, text = forgotten(*command, "--trust")
        assert code == 0, text
    assert agent57.load(file).arm == agent57.Run(run).config.family.arms - 1
    forgotten("--version")
    with pytest.raises(ConfigError, match="give --trust"):
        agent57.Run(run).policy()
