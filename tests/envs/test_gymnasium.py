import importlib.metadata
import multiprocessing
import sys
import time
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agent57.config import ConfigError, EnvConfig
from agent57.envs import gymnasium as module
from agent57.envs.gymnasium import GymnasiumEnv, is_registered, unknown_name
from agent57.envs.spec import EnvironmentFault
from tests.envs.playing import (
    assert_masked_resets_leave_lane_0_alone,
    assert_resumes_exactly,
    assert_same,
    begin,
    play,
)

PLACE = r" \(test_gymnasium.py, line \d+\)"  # where an environment here raised its error


class Task(gymnasium.Env):
    """An environment with any spaces, which may fail at its third step."""

    def __init__(self, observation_space, action_space=None, trouble=None, render_mode=None):
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(2)
        self.trouble = trouble
        self.seen_actions = []
        self.num_steps = 0

    def observe(self):
        space = self.observation_space
        space.seed(int(self.np_random.integers(1 << 30)))
        return space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.trouble == "noise":
            self.np_random = np.random.default_rng()
        if self.trouble == "hangs in reset" and self.num_steps == 2:
            time.sleep(1e6)
        self.num_steps = 0
        return self.observe(), {}

    def step(self, action):
        assert action in self.action_space
        self.num_steps += 1
        observation, reward = self.observe(), 0.5
        if self.num_steps == 3:
            if self.trouble == "raises":
                raise KeyError("lost")
            if self.trouble == "exits":
                sys.exit(0)
            if self.trouble == "hangs in step":
                time.sleep(1e6)
            if self.trouble == "nan observation":
                observation = observation * np.nan
            if self.trouble == "nan reward":
                reward = np.nan
        is_over = self.trouble == "both ends" and self.num_steps == 3
        return observation, reward, is_over, is_over, {}


@pytest.fixture
def task():
    """Register a `Task` for one test; return its id."""
    registered = []

    def register(*args, **kwargs):
        name = f"agent57tests/Task{len(registered)}-v0"
        gymnasium.register(id=name, entry_point=lambda render_mode=None: Task(*args, **kwargs))
        registered.append(name)
        return name

    yield register
    for name in registered:
        del gymnasium.registry[name]


def gym(name: str, num_lanes: int = 2, **settings) -> GymnasiumEnv:
    return GymnasiumEnv(EnvConfig(name=name, **settings), num_lanes)


VECTOR = spaces.Box(-1, 1, (3,), np.float64)


@pytest.mark.parametrize(
    ("space", "kind", "shape", "max_value"),
    [
        (spaces.Box(0, 255, (210, 160, 3), np.uint8), "pixels", (3, 210, 160), 255),
        (spaces.Box(0, 255, (84, 84), np.uint8), "pixels", (1, 84, 84), 255),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), "pixels", (4, 84, 84), 255),
        (spaces.Box(0, 255, (36, 36, 3), np.uint8), "pixels", (3, 36, 36), 255),
        (spaces.Box(0, 255, (35, 50, 3), np.uint8), "grid", (3, 35, 50), 255),
        (spaces.Box(0, 10, (7, 7, 3), np.uint8), "grid", (3, 7, 7), 10),
        (spaces.Box(0, 1, (10, 10, 6), np.bool_), "grid", (6, 10, 10), 1),
        (spaces.Box(0, 1, (5, 9), np.bool_), "grid", (1, 5, 9), 1),
        (spaces.Dict(image=spaces.Box(0, 10, (7, 7, 3), np.uint8), way=spaces.Discrete(4)),
         "grid", (3 * 7 * 7 + 4 * 4,), 10),
        (VECTOR, "vector", (3,), 1),
        (spaces.Box(0, 255, (128,), np.uint8), "vector", (128,), 1),
        (spaces.Discrete(6), "vector", (6,), 1),
        (spaces.Discrete(6, start=-2), "vector", (6,), 1),
    ],
)  # fmt: skip
def test_observations_become_planes_or_vectors(task, space, kind, shape, max_value):
    env = gym(task(space))
    assert (env.spec.kind, env.spec.observation_shape) == (kind, shape)
    assert env.spec.observation_dtype == ("float32" if kind == "vector" else "uint8")
    assert env.spec.max_value == max_value
    begin(env)
    play(env, 3)
    env.close()


def test_images_keep_their_content_as_planes(task):
    space = spaces.Box(0, 255, (40, 50, 3), np.uint8)
    name = task(space)
    env, single = gym(name, 1), gymnasium.make(name, disable_env_checker=True)
    image, _ = single.reset(seed=0)
    assert np.array_equal(begin(env)[0], np.moveaxis(image, 2, 0))
    env.close()


def test_discrete_observations_are_one_hot(task):
    name = task(spaces.Discrete(6, start=-2))
    env, single = gym(name, 1), gymnasium.make(name, disable_env_checker=True)
    index, _ = single.reset(seed=0)
    assert np.array_equal(begin(env)[0], np.arange(-2, 4) == index)
    env.close()


def test_actions_count_from_zero_whatever_the_space_starts_at(task):
    env = gym(task(VECTOR, spaces.Discrete(3, start=5)))
    assert env.spec.num_actions == 3
    begin(env)
    play(env, 20)
    with pytest.raises(ValueError, match=r"action must lie in \[0, 2\], got 5"):
        env.step(np.array([0, 5]))
    env.close()


def test_minigrid_shows_its_image():
    env = gym("MiniGrid-KeyCorridorS3R3-v0")
    assert (env.spec.kind, env.spec.observation_shape) == ("grid", (3, 7, 7))
    assert env.spec.num_actions == 7
    observation = begin(env)
    image = gymnasium.make("MiniGrid-KeyCorridorS3R3-v0").reset(seed=1)[0]["image"]
    assert np.array_equal(observation[1], np.moveaxis(image, 2, 0))
    assert env.render(0).shape[2] == 3
    env.close()


def test_minigrid_that_is_missing_is_named_with_its_extra(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(module.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"env.name .*pip install 'agent57\[minigrid\]'"):
        is_registered("MiniGrid-Empty-5x5-v0")


def test_a_module_that_is_missing_is_named_by_its_package():
    with pytest.raises(ConfigError, match=r"needs the package no_such: .*folder of no_such\.py"):
        is_registered("no_such.wrapper:Task-v0")


def test_a_module_that_lacks_another_says_which(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    module.trust("half_installed:Task-v0")
    with pytest.raises(ConfigError, match="import half_installed: No module.*no_such_dependency"):
        is_registered("half_installed:Task-v0")


@pytest.mark.parametrize("parallel", ["sync", "async"])
@pytest.mark.parametrize("name", ["CartPole-v1", "MiniGrid-Empty-Random-6x6-v0"])
def test_running_episodes_resume_exactly(name, parallel):
    env, other = gym(name, parallel=parallel), gym(name)
    assert_resumes_exactly(env, other)
    env.close()
    other.close()


def test_lanes_in_processes_play_like_lanes_in_this_one():
    here, there = gym("CartPole-v1"), gym("CartPole-v1", parallel="async")
    assert np.array_equal(begin(here), begin(there))
    assert_same(play(here, 60), play(there, 60))
    assert np.array_equal(here.render(1), there.render(1))
    here.close()
    there.close()


def test_a_masked_reset_leaves_other_lanes_alone():
    env, alone = gym("CartPole-v1", 2), gym("CartPole-v1", 1)
    assert_masked_resets_leave_lane_0_alone(env, alone, 8, period=1)


def test_a_time_limit_truncates_with_the_true_last_observation():
    env, single = gym("MountainCar-v0", 1), gymnasium.make("MountainCar-v0")
    begin(env)
    single.reset(seed=0)
    for t in range(200):
        step = env.step(np.array([1]))
        observation = single.step(1)[0]
        assert np.array_equal(step.observation[0], observation)
        assert step.truncated.tolist() == [t == 199]
    env.close()


def test_the_configured_cap_truncates_too():
    env = gym("MountainCar-v0", 1, max_episode_frames=3)
    begin(env)
    assert [bool(env.step(np.array([1])).truncated[0]) for _ in range(3)] == [False, False, True]
    env.close()


def test_an_episode_that_ends_both_ways_is_terminated(task):
    env = gym(task(VECTOR, trouble="both ends"), 1)
    begin(env)
    for _ in range(3):
        step = env.step(np.zeros(1, np.int64))
    assert step.terminated.all()
    assert not step.truncated.any()
    env.close()


def test_an_environment_with_noise_of_its_own_is_not_rebuilt(task):
    name = task(VECTOR, trouble="noise")
    env, other = gym(name), gym(name)
    begin(env)
    play(env, 4)
    assert other.load_state_dict(env.state_dict()).tolist() == [False, False]
    begin(other)
    play(other, 4)
    env.close()
    other.close()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("trouble", ["nan observation", "nan reward", "raises"])
@pytest.mark.parametrize("parallel", ["sync", "async"])
def test_trouble_in_a_lane_is_a_fault_that_names_it(task, trouble, parallel):
    name = task(VECTOR, trouble=trouble)
    env = gym(name, parallel=parallel)
    begin(env)
    env.step(np.zeros(2, np.int64))
    env.reset(np.array([True, False]), np.zeros(2, np.int64))
    env.step(np.zeros(2, np.int64))
    words = "KeyError: 'lost'" if trouble == "raises" else f"{trouble.split()[1]} .*not finite"
    with pytest.raises(EnvironmentFault, match=f"^{name}: (.* of )?lane 1 .*") as fault:
        env.step(np.zeros(2, np.int64))
    assert fault.match(words)
    assert "\n" not in str(fault.value)
    env.close()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_process_that_dies_is_a_fault_and_the_others_can_be_closed():
    env = gym("CartPole-v1", parallel="async")
    begin(env)
    multiprocessing.active_children()[-1].kill()
    with pytest.raises(EnvironmentFault, match="^CartPole-v1: "):
        play(env, 50)
    env.close()


def test_a_fault_in_this_process_carries_its_cause(task):
    env = gym(task(VECTOR, trouble="raises"))
    begin(env)
    with pytest.raises(EnvironmentFault) as fault:
        play(env, 3)
    assert isinstance(fault.value.__cause__, KeyError)
    env.close()


@pytest.mark.parametrize(
    ("spaces_", "words"),
    [
        ((VECTOR, spaces.Box(-1, 1, (2,))), "has Box actions: wrap it to offer a Discrete choice"),
        ((VECTOR, spaces.MultiDiscrete([32, 32])), "1,024 combined actions.*wrap it"),
        ((spaces.Box(-np.inf, 1, (84, 84, 3), np.float32),), "observation is Box.*wrap it"),
        ((spaces.Box(0, 255, (4, 84, 84, 3), np.uint8),), "observation is Box.*wrap it"),
        ((spaces.Text(5),), "text, which the agent cannot read"),
    ],
)
def test_spaces_that_cannot_work_are_refused_in_one_line(task, spaces_, words):
    name = task(*spaces_)
    with pytest.raises(ConfigError, match=f"^env.name '{name}' .*{words}") as error:
        gym(name)
    assert "\n" not in str(error.value)


def test_an_environment_that_cannot_be_made_is_refused_in_one_line():
    def broken(render_mode=None):
        raise RuntimeError("needs a licence\nand more")

    gymnasium.register(id="agent57tests/Broken-v0", entry_point=broken)
    with pytest.raises(ConfigError, match=f"^env.name .* cannot be made: needs a licence{PLACE}$"):
        gym("agent57tests/Broken-v0")
    del gymnasium.registry["agent57tests/Broken-v0"]


def test_the_nearest_names_are_offered():
    assert "did you mean CartPole-v1" in str(unknown_name("CartPole", ()))
    assert "did you mean pong?" in str(unknown_name("pnog", ("pong", "breakout")))
    assert "give a paper game" in str(unknown_name("zzzzzzzzqq", ("pong",)))


def test_a_package_before_the_id_is_imported():
    assert is_registered("agent57.envs.random_coin:agent57/RandomCoin-v0")
    with pytest.raises(ConfigError, match="needs the package no_such_package"):
        is_registered("no_such_package:Task-v0")


def test_a_package_that_only_declares_its_registration_is_asked_for_it(monkeypatch):
    def register():
        gymnasium.register(id="Declared/Task-v0", entry_point="none:Task")

    entry = SimpleNamespace(module="declared57.gym", load=lambda: register)
    other = SimpleNamespace(module="another.gym", load=lambda: pytest.fail("of another package"))
    declared = {"gymnasium.envs": [other, entry]}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: declared.get(group, []))
    monkeypatch.setitem(sys.modules, "declared57", SimpleNamespace())
    assert is_registered("declared57:Declared/Task-v0")
    assert not is_registered("declared57:Declared/Other-v0")
    del gymnasium.registry["Declared/Task-v0"]


def test_the_hint_names_a_package_that_is_installed():
    assert "such as nothing_env:nothing-v0" in str(unknown_name("nothing-v0", ()))
    assert "such as pytest:PyTest/Task-v0" in str(unknown_name("PyTest/Task-v0", ()))
    assert "needs agent57.register_env first" in str(unknown_name("my task", ()))


def test_pictures_in_float_numbers_are_drawn_in_bytes():
    class Floats(Task):
        metadata = {"render_modes": ["rgb_array"]}

        def render(self):
            return np.full((4, 4, 3), 0.5)

    gymnasium.register(
        id="agent57tests/Floats-v0",
        entry_point=lambda render_mode=None: Floats(VECTOR, render_mode=render_mode),
    )
    env = gym("agent57tests/Floats-v0")
    begin(env)
    picture = env.render(0)
    assert picture.dtype == np.uint8
    assert (picture == 128).all()
    env.close()
    del gymnasium.registry["agent57tests/Floats-v0"]


def test_an_environment_without_pictures_says_so(task):
    env = gym(task(VECTOR))
    begin(env)
    with pytest.raises(ValueError, match="draws no pictures"):
        env.render(0)
    env.close()


def test_the_suite_of_the_emulator_is_an_ordinary_id():
    env = gym("ALE/Pong-v5", 1)
    assert (env.spec.kind, env.spec.observation_shape) == ("pixels", (3, 210, 160))
    assert env.spec.frames_per_step == 1
    begin(env)
    play(env, 2)
    assert env.render(0).shape == (210, 160, 3)
    env.close()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("call", ["step", "reset"])
def test_a_lane_that_hangs_in_a_process_of_its_own_is_a_fault_in_time(task, call):
    name = task(VECTOR, trouble=f"hangs in {call}")
    env = gym(name, parallel="async", step_seconds=0.5)
    begin(env)
    env.step(np.zeros(2, np.int64))
    env.reset(np.array([True, False]), np.zeros(2, np.int64))
    env.step(np.zeros(2, np.int64))
    words = rf"^{name}: lane 1 did not {call} within env.step_seconds \(0.5 s\)$"
    arguments = [np.array([False, True])] if call == "reset" else []
    with pytest.raises(EnvironmentFault, match=words):
        getattr(env, call)(*arguments, np.zeros(2, np.int64))
    env.close()
    assert not multiprocessing.active_children()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("parallel", ["sync", "async"])
def test_an_environment_that_exits_is_a_fault(task, parallel):
    name = task(VECTOR, trouble="exits")
    env = gym(name, parallel=parallel)
    begin(env)
    words = f"lane . failed to step: SystemExit: 0{PLACE}"
    with pytest.raises(EnvironmentFault, match=f"^{name}: {words}$"):
        play(env, 3)
    env.close()
