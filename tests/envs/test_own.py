"""Environments that a user's program registers."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import agent57
from agent57.config import ConfigError, EnvConfig
from agent57.envs.make import announcements, check_env, make_env
from agent57.envs.own import maker_of, name_of, register_env, takes_num_envs
from tests.test_cli import call

ALL = np.ones(2, bool)
FILE = """
import gymnasium
from gymnasium import spaces
import numpy as np

class Corridor(gymnasium.Env):
    action_space = spaces.Discrete(2)
    def __init__(self, length=4, render_mode=None):
        self.length, self.render_mode = length, render_mode
        self.observation_space = spaces.Dict(
            cell=spaces.Discrete(length), time=spaces.Box(0, 1, (1,)))
    def look(self):
        return {"cell": self.cell, "time": np.array([self.num / 20], np.float32)}
    def reset(self, *, seed=None, options=None):
        self.cell = self.num = 0
        return self.look(), {}
    def step(self, action):
        self.cell = min(self.length - 1, max(0, self.cell + 2 * int(action) - 1))
        self.num += 1
        done = self.cell == self.length - 1
        return self.look(), float(done), done, self.num >= 20, {}

gymnasium.register("Corridor-v0", Corridor)

def doubled(env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: 2 * reward)
"""


class Corridor(gymnasium.Env):
    """Two cells and a goal."""

    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 4) -> None:
        self.length = length
        self.observation_space = spaces.Discrete(length)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        self.cell = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        self.cell = min(self.length - 1, max(0, self.cell + 2 * int(action) - 1))
        done = self.cell == self.length - 1
        return self.cell, float(done), done, False, {}


def vector(num_envs: int) -> SyncVectorEnv:
    return SyncVectorEnv([Corridor] * num_envs, autoreset_mode=AutoresetMode.DISABLED)


def test_classes_and_functions_get_names() -> None:
    assert name_of("pong") == "pong"
    assert name_of(Corridor) == "Corridor"
    assert maker_of("Corridor") is Corridor
    assert name_of(lambda: Corridor(3)) == "python"
    assert takes_num_envs(vector)
    assert not takes_num_envs(Corridor)
    with pytest.raises(ConfigError, match=r"lambda: Corridor\(\.\.\.\)"):
        name_of(Corridor())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a class or a function"):
        register_env("x", 5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="an environment, got int$"):
        name_of(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("maker", [Corridor, lambda: Corridor(), vector])
def test_lanes_of_own_environments_play_alike(maker: Any) -> None:
    env = make_env(EnvConfig(name=name_of(maker)), 2)
    assert (env.spec.kind, env.spec.observation_shape, env.spec.num_actions) == ("vector", (4,), 2)
    observation = env.reset(ALL, np.zeros(2, np.int64))
    assert observation[:, 0].tolist() == [1, 1]
    for action in ([1, 0], [1, 1]):
        step = env.step(np.array(action))
    assert step.observation.argmax(1).tolist() == [2, 1]
    step = env.step(np.array([1, 1]))
    assert step.terminated.tolist() == [True, False]
    observation = env.reset(np.array([True, False]), np.zeros(2, np.int64))
    assert observation.argmax(1).tolist() == [0, 2]
    env.close()


def test_a_vector_that_resets_by_itself_is_refused() -> None:
    register_env("selfish", lambda num_envs: SyncVectorEnv([Corridor] * num_envs))
    with pytest.raises(ConfigError, match=r"AutoresetMode.DISABLED"):
        make_env(EnvConfig(name="selfish"), 2)


def test_what_is_no_environment_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(env: gymnasium.Env) -> None:
        gymnasium.wrappers.TimeLimit(env, 10)

    monkeypatch.setattr("tests.envs.test_own.forgetful", forgetful, raising=False)
    register_env("nothing", lambda: None)
    register_env("number", lambda num_envs: num_envs)
    wrapped = EnvConfig(name=name_of(Corridor), wrapper="tests.envs.test_own:forgetful")
    refusals = {
        EnvConfig(name="nothing"): "env.name 'nothing' must return a gymnasium.Env, got None",
        EnvConfig(name="number"): "env.name 'number' must return a gymnasium.vector.VectorEnv, got",
        wrapped: f"env.wrapper {wrapped.wrapper!r} must return a gymnasium.Env, got None",
    }
    for config, message in refusals.items():
        with pytest.raises(ConfigError, match=f"^{message}"):
            make_env(config, 2)


def test_an_environment_that_does_not_begin_is_refused_with_its_line() -> None:
    class Hasty(Corridor):
        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
            return self.cell, {}

    message = r"^Hasty: lane 0 failed to reset: AttributeError: .*'cell' \(test_own.py, line \d+\)$"
    with pytest.raises(ConfigError, match=message):
        check_env(EnvConfig(name=name_of(Hasty)))


def test_a_class_is_trained_on_and_its_run_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent57, "TORCH_CAME_FIRST", False)
    options: dict[str, Any] = {"run": {"threads": 1}, "replay": {"min_windows": 2}}
    run = agent57.train(
        env=Corridor, scale="tiny", frames=80, out=tmp_path / "run", view="quiet",
        env_kwargs={"length": 3}, **options,
    )  # fmt: skip
    assert run.config.env.kwargs == '{"length": 3}'
    assert run.policy().spec.observation_shape == (3,)
    assert agent57.resume(run.path, frames=160, view="quiet").frames == 160
    with pytest.raises(ConfigError, match="give env= a function"):
        agent57.make_config(env=Corridor, env_kwargs={"length": object()})


def test_a_module_beside_the_user_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corridor57.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    tiny = ("--scale", "tiny", "--frames", "2e2", "--run.threads", "1")
    for name in ("corridor57:Corridor-v0", "corridor57:Corridor"):
        out = tmp_path / name.replace(":", "-")
        code, _, errors = call(
            "train", "--env", name, "--env-kwargs", "length=3", *tiny, "--out", str(out),
            "--wrapper", "corridor57:doubled",
        )  # fmt: skip
        assert code == 0, errors
        assert max(agent57.Run(out).episodes()["return"]) == 2.0
        assert agent57.Run(out).config.run.frames == 200
    code, _, errors = call("train", "--env", "corridor57:Hall-v0", *tiny, "--out", "x")
    assert code == 2
    assert "'corridor57:Hall-v0' is not a known environment: corridor57 registers no id" in errors


def test_parts_that_are_not_seen_are_announced() -> None:
    pytest.importorskip("minigrid")
    grid = EnvConfig(name="MiniGrid-Empty-5x5-v0")
    (line,) = announcements(grid.name, grid)
    assert "sees image and does not see direction, mission" in line
    assert announcements("CartPole-v1", EnvConfig(name="CartPole-v1")) == []
    env = make_env(EnvConfig(name=grid.name, observe=("image", "direction")), 1)
    assert env.spec.num_beside == 4
    env.close()


def test_an_environment_object_is_refused_with_advice() -> None:
    vector = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2)
    with pytest.raises(ConfigError, match=r"such as lambda num_envs: SyncVectorEnv\(\.\.\.\)"):
        name_of(vector)
    with pytest.raises(ConfigError, match="such as lambda: TimeLimit"):
        name_of(gymnasium.make("CartPole-v1"))
    vector.close()
