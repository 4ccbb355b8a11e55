"""The evaluator: a player with its own bandit that reports scores and never writes to replay.

- A training phase of `phase_episodes` episodes teaches the bandit. An evaluation phase of as many
  episodes plays the bandit's best arm and does not teach the bandit. The phases alternate.
- The evaluator takes the learner's weights at the start of each phase.
- It acts with the evaluation epsilon in both phases.
"""

import dataclasses
from typing import Any

import numpy as np
import torch

from agent57.bandit import make_controller
from agent57.config import Config
from agent57.envs.spec import VectorEnv
from agent57.glances import glances
from agent57.ops.family import betas, gammas
from agent57.player import Player, PublishedWeights
from agent57.seeds import Role, generator
from agent57.types import Episode

PHASES = ("train", "evaluate")


class Evaluator:
    """Plays its own lanes. An episode belongs to the phase in which it began."""

    def __init__(
        self, config: Config, env: VectorEnv, published: PublishedWeights, device: torch.device
    ) -> None:
        self._config = config.evaluator
        self._env = env
        self._published = published
        epsilon = np.full(env.num_lanes, config.evaluator.epsilon)
        roles = (Role.EVALUATOR_EPISODES, Role.EVALUATOR_ACTIONS)
        self.player = Player(config, env, epsilon, roles, 0, device, is_evaluated=True)
        self._controller = make_controller(
            config.evaluator_controller,
            config.family.arms,
            0,
            generator(config.run.seed, Role.EVALUATOR_BANDIT),
        )
        self._beta, self._gamma = betas(config.family), gammas(config.family)
        self._phase = [PHASES[0]] * env.num_lanes
        self._needs_begin = np.ones(env.num_lanes, dtype=bool)
        self._num_begun = 0
        self._returns: list[float] = []  # of the current evaluation phase
        self.mean_return: float | None = None  # of the latest complete evaluation phase

    @property
    def best_arm(self) -> int:
        """The arm that an evaluation episode would play if it started now."""
        return self._controller.best()

    def step(self, frames: int) -> list[Episode]:
        """Play one step in every lane; return the episodes it completed.

        `frames` is the number of frames trained on so far.
        """
        if self._needs_begin.any():
            self._begin()
        played = self.player.step()
        self._needs_begin = played.terminated | played.truncated
        ended = self.player.ended_episodes(self._needs_begin, "evaluator", frames)
        return [self._finish(episode) for episode in ended]

    def _begin(self) -> None:
        arms = np.zeros(self._env.num_lanes, dtype=np.int64)
        for lane in np.flatnonzero(self._needs_begin):
            phase_index, episode = divmod(self._num_begun, self._config.phase_episodes)
            if episode == 0:
                self.player.load_weights(*self._published())
            self._phase[lane] = PHASES[phase_index % 2]
            is_training = self._phase[lane] == "train"
            arms[lane] = self._controller.select() if is_training else self._controller.best()
            self._num_begun += 1
        self.player.begin(self._needs_begin, arms)

    def _finish(self, episode: Episode) -> Episode:
        phase = self._phase[episode.lane]
        if phase == "train":
            self._controller.observe(episode.arm, episode.episode_return)
        else:
            self._returns.append(episode.episode_return)
            if len(self._returns) == self._config.phase_episodes:
                self.mean_return = float(np.mean(self._returns))
                self._returns = []
        return dataclasses.replace(episode, phase=phase)

    def summary(self) -> dict[str, float | None]:
        """Return the latest score, and the arm of the next evaluation episode."""
        arm = self.best_arm
        return {
            "evaluator/return": self.mean_return,
            "evaluator/best_arm": arm,
            "evaluator/best_beta": float(self._beta[arm]),
            "evaluator/best_gamma": float(self._gamma[arm]),
        }

    def lanes(self, count: int) -> list[dict[str, Any]]:
        """Describe what the first lanes are doing, for a viewer."""
        return [
            {"source": "evaluator", "phase": self._phase[told["lane"]], **told}
            for told in glances(self.player, count)
        ]

    def lasting_state(self) -> dict[str, Any]:
        """Return the state that outlives an episode, for a process that starts new episodes."""
        return {
            "player": self.player.lasting_state(),
            "controller": self._controller.state_dict(),
            "num_begun": self._num_begun - int((~self._needs_begin).sum()),
            "returns": list(self._returns),
            "mean_return": self.mean_return,
        }

    def load_lasting_state(self, state: dict[str, Any]) -> None:
        """Take over from a lost evaluator; its running episodes are played again."""
        self.player.load_lasting_state(state["player"])
        self.player.load_weights(*self._published())
        self._controller.load_state_dict(state["controller"])
        self._num_begun = int(state["num_begun"])
        self._returns = [float(value) for value in state["returns"]]
        self.mean_return = _number_or_none(state["mean_return"])

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on in mid-episode."""
        return {
            "player": self.player.state_dict(),
            "controller": self._controller.state_dict(),
            "phase": list(self._phase),
            "needs_begin": self._needs_begin.tolist(),
            "num_begun": self._num_begun,
            "returns": list(self._returns),
            "mean_return": self.mean_return,
        }

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Go on from `state`; return the mask [E] of lanes whose running episode was dropped."""
        dropped = self.player.load_state_dict(state["player"])
        self._controller.load_state_dict(state["controller"])
        self._phase = [phase for _, phase in zip(self._phase, state["phase"], strict=True)]
        needs_begin = np.array(state["needs_begin"], dtype=bool)
        self._needs_begin = needs_begin.reshape(self._needs_begin.shape)
        self._num_begun = int(state["num_begun"])
        self._returns = [float(value) for value in state["returns"]]
        self.mean_return = _number_or_none(state["mean_return"])
        dropped &= ~self._needs_begin
        self._needs_begin = self._needs_begin | dropped
        self._num_begun -= int(dropped.sum())  # dropped episodes will be played again
        return dropped


def _number_or_none(value: Any) -> float | None:  # noqa: ANN401
    return None if value is None else float(value)
