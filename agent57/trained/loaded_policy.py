"""`agent57.load`: a trained agent as a function from observations to actions, for any program.

    policy = agent57.load("runs/pong")
    state = policy.initial_state()
    action, state = policy.act(observation, state, reward=0.0, first=True)

It is the agent's own player behind a mailbox instead of an environment, so it sees what the agent
saw in training: previous action, previous rewards, and the novelty that its own curiosity finds in
the observations. It does not learn.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from agent57.envs.make import check_env
from agent57.envs.spec import Step
from agent57.player import Decision, Player
from agent57.runtime.run import choose_device
from agent57.trained.trained_run import TrainedRun
from agent57.types import EnvSpec

ONE_LANE = np.ones(1, dtype=bool)
NOT_ENDED = np.zeros(1, dtype=bool)


class Mailbox:
    """Stands where a player expects an environment of one lane; observations come from outside."""

    num_lanes = 1

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.first_observation = np.zeros(spec.observation_shape, spec.observation_dtype)

    def reset(self, lanes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """The first observation that was put in."""
        return self.first_observation[None]

    def step(self, action: np.ndarray) -> Step:
        """Nobody may step a mailbox."""
        raise NotImplementedError

    def render(self, lane: int) -> np.ndarray:
        """A mailbox has no picture."""
        raise NotImplementedError

    def running_episode(self, lane: int) -> None:
        """Return nothing: a mailbox plays no episode."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Nothing."""
        return ONE_LANE

    def close(self) -> None:
        """Nothing."""


class PolicyState:
    """The memory of one stream of episodes: recurrent state, novelty, what was done last.

    It changes in place. Play several streams at once with one state each.
    """

    def __init__(self, mailbox: Mailbox, player: Player) -> None:
        self.mailbox = mailbox
        self.player = player
        self.decision: Decision | None = None  # that the next reward will answer

    @property
    def intrinsic(self) -> dict[str, float]:
        """Novelty and modulation of the latest observation; empty if no arm is curious."""
        curiosity = self.player.curiosity
        return {} if curiosity is None else {k: float(v[0]) for k, v in curiosity.last.items()}


class Policy:
    """Acts as one arm of a trained run."""

    def __init__(
        self, run: TrainedRun, arm: int | None, epsilon: float, seed: int, device: torch.device
    ) -> None:
        self._run = run
        self._epsilon = epsilon
        self._seed = seed
        self._device = device
        self._num_states = 0
        self.arm = run.choose_arm(arm)
        self.beta, self.gamma = run.beta_gamma(self.arm)
        self.spec = check_env(run.config.env)
        self._networks = run.make_networks(self.spec)

    def initial_state(self) -> PolicyState:
        """The state before the first episode; each has random numbers of its own."""
        mailbox = Mailbox(self.spec)
        player = self._run.make_player(
            mailbox, self._epsilon, self._seed, self._device, self._num_states, self._networks
        )
        self._num_states += 1
        return PolicyState(mailbox, player)

    def act(
        self,
        observation: np.ndarray,
        state: PolicyState,
        reward: float = 0.0,
        first: bool = False,
    ) -> tuple[int, PolicyState]:
        """The action to play at one observation, and the state to give with the next.

        `reward` is what the previous action earned, unclipped. `first` begins a new episode; a
        state that has not acted yet begins one in any case.
        """
        observation = self._checked(observation)
        if first or state.decision is None:
            state.mailbox.first_observation = observation
            state.player.begin(ONE_LANE, np.array([self.arm]))
        else:
            step = Step(
                observation=observation[None],
                reward=np.array([reward], dtype=np.float32),
                terminated=NOT_ENDED,
                truncated=NOT_ENDED,
            )
            state.player.arrive(state.decision, step)
        state.decision = state.player.decide()
        return int(state.decision.action[0]), state

    def _checked(self, observation: np.ndarray) -> np.ndarray:
        """A copy, as the networks take it."""
        given, spec = np.asarray(observation), self.spec
        if given.shape != spec.observation_shape:
            raise ValueError(
                f"{spec.name} is observed as {spec.observation_dtype} {spec.observation_shape}, "
                f"got shape {given.shape}"
            )
        if spec.observation_dtype == "uint8" and given.dtype != np.uint8:
            raise ValueError(f"{spec.name} is observed as uint8, got {given.dtype}")
        return np.array(given, dtype=spec.observation_dtype)


def load(
    path: str | Path,
    arm: int | None = None,
    *,
    epsilon: float = 0.0,
    seed: int = 0,
    device: str = "auto",
) -> Policy:
    """A trained run's policy: the evaluator's best arm, or arm j.

    epsilon: probability of a random action (the paper evaluates with 0.01)
    seed: of those, and of the "previous action" an episode begins with, as in training
    """
    return Policy(TrainedRun.load(Path(path)), arm, epsilon, seed, choose_device(device))
