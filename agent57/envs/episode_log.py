"""Running episodes as seeds and actions: enough to play them again, exactly, in any environment
whose episodes follow from both. Emulator states are not kept here.
"""

from typing import Any

import numpy as np
import torch

from agent57.envs.spec import EpisodeRecord, Lanes, VectorEnv

FIRST_CAPACITY = 1024  # actions per lane before the log grows


class EpisodeLog:
    """Seed, actions and return of the episode that runs in each of E lanes."""

    def __init__(self, num_lanes: int, num_actions: int) -> None:
        self.seed = np.zeros(num_lanes, np.int64)
        self.num_steps = np.zeros(num_lanes, np.int64)
        self.num_episodes = np.zeros(num_lanes, np.int64)  # begun, the running one included
        self.returns = np.zeros(num_lanes, np.float64)
        self._actions = np.zeros(
            (num_lanes, FIRST_CAPACITY), np.uint8 if num_actions <= 256 else np.int32
        )
        self._lane = np.arange(num_lanes)

    def begin(self, lanes: np.ndarray, seeds: np.ndarray) -> None:
        """Forget the episodes of the lanes of the mask and begin new ones."""
        self.seed[lanes] = seeds[lanes]
        self.num_steps[lanes] = 0
        self.num_episodes[lanes] += 1
        self.returns[lanes] = 0.0

    def record(self, action: np.ndarray, reward: np.ndarray) -> None:
        """Append one action per lane and add up what it earned."""
        if self.num_steps.max() == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[self._lane, self.num_steps] = action
        self.num_steps += 1
        self.returns += reward

    def actions(self, lane: int, start: int = 0) -> np.ndarray:
        """The actions of a lane's running episode from its step `start` on, [T] int64."""
        return self._actions[lane, start : self.num_steps[lane]].astype(np.int64)

    def record_of(self, lane: int) -> EpisodeRecord:
        """Return a lane's running episode."""
        return EpisodeRecord(seed=int(self.seed[lane]), actions=self.actions(lane))

    def state_dict(self, lanes: Lanes, observation: np.ndarray) -> dict[str, Any]:
        """The running episodes and their current observations, as `rebuild` takes them."""
        lanes.check_begun()
        is_played = np.arange(self._actions.shape[1]) < self.num_steps[:, None]
        return {
            "name": lanes.name,
            "is_playing": torch.from_numpy(lanes.is_playing.copy()),
            "observation": torch.from_numpy(observation.copy()),
            "seed": torch.from_numpy(self.seed.copy()),
            "num_steps": torch.from_numpy(self.num_steps.copy()),
            "returns": torch.from_numpy(self.returns.copy()),
            "actions": torch.from_numpy(self._actions[is_played]),  # lane after lane
        }


def rebuild(env: VectorEnv, state: dict[str, Any]) -> np.ndarray:
    """Play saved episodes again in `env`; a mask [E] of the lanes that came out the same.

    All lanes are played in one pass that they finish together: a lane of n actions begins its
    episode when the longest has n left. Until then, or once it departs from what was saved, it
    plays anything. A state of another environment or of another number of lanes is refused.
    """
    check_fits(env, state)
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


def check_fits(env: VectorEnv, state: dict[str, Any]) -> None:
    """Refuse the state of another environment or of another number of lanes."""
    name, num_lanes = state["name"], len(state["is_playing"])
    if (name, num_lanes) != (env.spec.name, env.num_lanes):
        raise ValueError(
            f"saved lanes do not fit: {num_lanes} of {name}, not {env.num_lanes} of {env.spec.name}"
        )


def _ending_together(actions: np.ndarray, num_steps: np.ndarray) -> np.ndarray:
    """Actions that lie lane after lane, as rows [T, E] that end with the last of each lane."""
    plan = np.zeros((len(num_steps), num_steps.max()), np.int64)
    plan[np.arange(plan.shape[1]) >= plan.shape[1] - num_steps[:, None]] = actions
    return plan.T.copy()
