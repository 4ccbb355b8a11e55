from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import agent57
from agent57.config import ConfigError
from agent57.envs.make import check_env, make_env
from agent57.nets.networks import make_networks
from agent57.presets import make_config
from agent57.trained.loaded_policy import Policy
from agent57.trained.trained_run import TrainedRun
from tests.trained_run import trained_run

CPU = torch.device("cpu")


def untrained(env_name: str) -> TrainedRun:
    """Return a run before its first update, on any task."""
    config = make_config("agent57", "tiny")
    config = replace(config, env=replace(config.env, name=env_name))
    weights = make_networks(config, check_env(config.env)).state_dict()
    return TrainedRun(
        path=Path("nowhere"),
        config=config,
        counters={"frames": 0, "steps": 0, "updates": 0},
        weights=weights,
        best_arm=0,
        curiosity=None,
    )


def plays_alike(run: TrainedRun, epsilon: float, num_steps: int) -> None:
    policy = Policy(run, 2, epsilon, 5, CPU)
    for lane in range(2):
        env = make_env(run.config.env, 1)
        player = run.make_player(env, epsilon, 5, CPU, first_lane=lane)
        player.begin(np.ones(1, bool), np.array([2]))
        state = policy.initial_state()
        reward, first = 0.0, True
        for _ in range(num_steps):
            played = player.step()
            action, state = policy.act(played.observation[0], state, reward, first)
            assert action == played.action[0]
            torch.testing.assert_close(state.decision.outputs.numpy(), played.value)
            reward, first = float(played.extrinsic[0]), False
            if played.terminated[0] or played.truncated[0]:
                break
        env.close()


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_acts_as_a_player_on_the_same_episodes(epsilon):
    plays_alike(TrainedRun.load(trained_run()), epsilon, num_steps=1000)


@pytest.mark.parametrize(
    ("env_name", "kind"),
    [
        ("pong", "pixels"),
        ("MiniGrid-Empty-5x5-v0", "grid"),
        ("random_coin", "grid"),
        ("CartPole-v1", "vector"),
    ],
)
def test_acts_on_every_kind_of_observation(env_name, kind):
    run = untrained(env_name)
    assert check_env(run.config.env).kind == kind
    plays_alike(run, 0.1, num_steps=12)


def test_a_second_episode_starts_without_the_memories_of_the_first():
    policy = agent57.load(trained_run())
    state = policy.initial_state()
    row = np.ones(policy.spec.observation_shape, np.float32)
    for _ in range(4):
        policy.act(row, state)
    repeated = state.intrinsic["novelty"]
    policy.act(row, state, first=True)
    policy.act(0 * row, state)
    assert state.intrinsic["novelty"] > repeated
    fresh = policy.initial_state()
    policy.act(row, fresh, first=True)
    policy.act(0 * row, fresh)
    assert state.intrinsic["novelty"] == pytest.approx(fresh.intrinsic["novelty"], rel=0.2)


def test_the_snippet_of_the_readme_works_on_the_best_arm():
    path = trained_run()
    policy = agent57.load(str(path))
    state = policy.initial_state()
    observation = np.zeros(policy.spec.observation_shape, np.float32)
    action, state = policy.act(observation, state, reward=0.0, first=True)
    assert 0 <= action < policy.spec.num_actions
    assert policy.arm == TrainedRun.load(path).best_arm
    action, state = policy.act(observation, state, reward=1.0, first=False)
    assert state.intrinsic["novelty"] >= 0


def test_states_do_not_disturb_each_other():
    policy = agent57.load(trained_run())
    rng = np.random.default_rng(0)
    rows = rng.random((6, *policy.spec.observation_shape)).astype(np.float32)

    def values(states, state, rows):
        taken = []
        for row in rows:
            for other in states:
                policy.act(-row, other)
            policy.act(row, state)
            taken.append(state.decision.outputs)
        return torch.stack(taken)

    alone = values([], policy.initial_state(), rows)
    other = agent57.load(trained_run())
    state, disturbing = other.initial_state(), other.initial_state()
    torch.testing.assert_close(values([disturbing], state, rows), alone)


def test_wrong_observations_and_arms_are_refused():
    policy = agent57.load(trained_run())
    with pytest.raises(ValueError, match="observed as float32.*policy.make_env"):
        policy.act(np.zeros(3, np.float32), policy.initial_state())
    with pytest.raises(ConfigError, match="--arm must lie in 0 to 3"):
        agent57.load(trained_run(), arm=4)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        agent57.lod  # noqa: B018


def test_an_agent_without_curiosity_can_be_loaded():
    policy = agent57.load(trained_run("toy/chain", "r2d2-bandit"))
    state = policy.initial_state()
    observation = np.zeros(policy.spec.observation_shape, np.float32)
    policy.act(observation, state)
    assert state.intrinsic == {}


def test_a_batch_acts_as_its_streams_would_alone():
    rng = np.random.default_rng(1)
    policy = agent57.load(trained_run(), epsilon=0.2, seed=4)
    shape = policy.spec.observation_shape
    rows = rng.random((7, 3, *shape)).astype(np.float32)
    rewards = rng.random((7, 3)).astype(np.float32)
    alone = agent57.load(trained_run(), epsilon=0.2, seed=4)
    states = [alone.initial_state() for _ in range(3)]
    batch = policy.initial_state(num_streams=3)
    for row, reward in zip(rows, rewards, strict=True):
        actions, batch = policy.act(row, batch, reward)
        wanted = [alone.act(row[i], state, float(reward[i]))[0] for i, state in enumerate(states)]
        assert actions.tolist() == wanted
        assert batch.intrinsic.keys() == states[0].intrinsic.keys()


def test_a_stream_of_a_batch_begins_anew_without_the_others():
    rng = np.random.default_rng(2)
    rows = rng.random((5, 2, *agent57.load(trained_run()).spec.observation_shape))
    rows = rows.astype(np.float32)
    values = []
    for restarted in (False, True):
        policy = agent57.load(trained_run())
        state = policy.initial_state(num_streams=2)
        for index, row in enumerate(rows):
            first = np.array([restarted and index == 4, False])
            policy.act(row, state, first=first)
        values.append(state.decision.outputs)
    torch.testing.assert_close(values[0][:, 1], values[1][:, 1], rtol=0, atol=0)
    policy = agent57.load(trained_run())
    state = policy.initial_state()
    policy.act(rows[4, 0], state, first=True)
    assert not torch.equal(values[0][:, 0], values[1][:, 0])
    with pytest.raises(ValueError, match="observed as float32"):
        policy.act(rows[0], state)


def test_the_environment_of_a_policy_fits_it():
    policy = agent57.load(trained_run("CartPole-v1"), seed=1)
    env = policy.make_env()
    observation, _ = env.reset(seed=5)
    again, _ = env.reset(seed=5)
    assert (observation == again).all()
    state, reward, first, total = policy.initial_state(), 0.0, True, 0.0
    ended = False
    while not ended:
        action, state = policy.act(observation, state, reward, first)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, first, ended = total + reward, False, terminated or truncated
    assert env.observation_space.contains(observation)
    assert env.action_space.n == policy.spec.num_actions
    assert total >= 8
    assert env.render().shape[-1] == 3
    env.close()
