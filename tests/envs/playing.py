"""Helpers that play environments in tests."""

import io
from typing import Any

import numpy as np
import torch

from agent57.envs.spec import VectorEnv


def begin(env: VectorEnv, first_seed: int = 0) -> np.ndarray:
    """Reset all lanes, with seeds from `first_seed` on."""
    return env.reset(everyone(env), np.arange(env.num_lanes) + first_seed)


def everyone(env: VectorEnv) -> np.ndarray:
    return np.ones(env.num_lanes, bool)


def play(env: VectorEnv, num_steps: int, seed: int = 0, first_seed: int = 100) -> list[np.ndarray]:
    """Play random actions with resets; return everything that was observed, in order."""
    rng = np.random.default_rng(seed)
    seen: list[np.ndarray] = []
    for _ in range(num_steps):
        step = env.step(rng.integers(env.spec.num_actions, size=env.num_lanes))
        assert not (step.terminated & step.truncated).any()
        assert step.reward.dtype == np.float32
        assert step.observation.dtype == env.spec.observation_dtype
        assert step.observation.shape == (env.num_lanes, *env.spec.observation_shape)
        seen += [step.observation.copy(), step.reward, step.terminated, step.truncated]
        ended = step.terminated | step.truncated
        if ended.any():
            first_seed += env.num_lanes
            seen.append(env.reset(ended, np.arange(env.num_lanes) + first_seed).copy())
    return seen


def assert_same(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    assert len(left) == len(right)
    assert all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def assert_masked_resets_leave_lane_0_alone(
    env: VectorEnv, alone: VectorEnv, num_steps: int, period: int
) -> None:
    """Check that lane 0 of two plays like a single lane while lane 1 is reset regularly."""
    begin(env)
    begin(alone)
    for t in range(num_steps):
        action = t % env.spec.num_actions
        step = env.step(np.array([action, 1]))
        single = alone.step(np.array([action]))
        assert np.array_equal(step.observation[0], single.observation[0])
        if t % period == 0:
            observation = env.reset(np.array([False, True]), np.array([0, t]))
            assert np.array_equal(observation[0], single.observation[0])
    env.close()
    alone.close()


def through_file(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state as a checkpoint would: only tensors and plain containers."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def assert_resumes_exactly(env: VectorEnv, other: VectorEnv, num_steps: int = 40) -> None:
    """Check that `other` takes over from `env` in mid-episode, and both go on in the same way."""
    begin(env)
    play(env, num_steps)
    assert other.load_state_dict(through_file(env.state_dict())).all()
    assert_same(play(env, num_steps, seed=1), play(other, num_steps, seed=1))
