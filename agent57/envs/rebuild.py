"""Replays saved episodes in environments whose episodes are determined by seed and actions.

No emulator state is saved.
"""

from typing import Any

import numpy as np

from agent57.envs.spec import VectorEnv


def rebuild(env: VectorEnv, state: dict[str, Any]) -> np.ndarray:
    """Replay saved episodes in `env`; return the mask [E] of lanes that reached the saved state.

    All lanes are played in one pass that they finish together: a lane with n actions begins its
    episode when the longest episode has n actions left. Before this, a lane plays arbitrary
    episodes, and so it does after its episode ended too early. A state of another environment or
    of another number of lanes is refused.
    """
    check_same_task(env, state)
    num_steps, seeds = state["num_steps"].numpy(), state["seed"].numpy()
    plan = _ending_together(state["actions"].numpy(), num_steps)
    returns = np.zeros(env.num_lanes)
    is_playing = np.zeros(env.num_lanes, bool)
    departed = np.zeros(env.num_lanes, bool)
    for num_left, action in zip(range(len(plan), 0, -1), plan, strict=True):
        departed |= ~is_playing & (num_steps > num_left)
        begins = ~is_playing | (num_steps == num_left)
        env.reset(begins, seeds)
        returns[begins] = 0.0
        step = env.step(action)
        returns += step.reward
        is_playing = ~(step.terminated | step.truncated)
    begins = num_steps == 0
    observation = env.reset(begins, seeds)
    returns[begins] = 0.0
    is_playing |= begins

    is_same = (observation == state["observation"].numpy()).reshape(env.num_lanes, -1).all(axis=1)
    is_same &= (is_playing == state["is_playing"].numpy()) & (returns == state["returns"].numpy())
    return is_same & ~departed


def check_same_task(env: VectorEnv, state: dict[str, Any]) -> None:
    """Refuse the state of another environment or of another number of lanes."""
    name, num_lanes = state["name"], len(state["is_playing"])
    if (name, num_lanes) != (env.spec.name, env.num_lanes):
        raise ValueError(
            f"saved lanes do not fit: {num_lanes} of {name}, not {env.num_lanes} of {env.spec.name}"
        )


def _ending_together(actions: np.ndarray, num_steps: np.ndarray) -> np.ndarray:
    """Arrange actions, given lane after lane, as rows [T, E]; the last row ends every lane."""
    plan = np.zeros((len(num_steps), num_steps.max()), np.int64)
    plan[np.arange(plan.shape[1]) >= plan.shape[1] - num_steps[:, None]] = actions
    return plan.T.copy()
