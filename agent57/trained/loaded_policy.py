"""`agent57.load`: a trained agent as a function from observations to actions, for any program.

    policy = agent57.load("runs/pong")
    state = policy.initial_state()
    action, state = policy.act(observation, state, reward=0.0, first=True)

A policy is the agent's own player, with observations from the caller instead of an environment. So
it has the same inputs as in training: previous action, previous rewards, and the novelty that its
own curiosity finds in the observations. It does not learn.
"""

import warnings
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch

from agent57.envs.gymnasium import trust as trust_env
from agent57.envs.one_lane import OneLane
from agent57.envs.spec import Step
from agent57.player import Decision, Player
from agent57.runtime.run import choose_device
from agent57.trained.policy_file import read_trained, write_policy
from agent57.trained.trained_run import TrainedRun
from agent57.types import EnvSpec


class GivenObservations:
    """Replaces a player's environment; the caller provides the observations."""

    def __init__(self, spec: EnvSpec, num_lanes: int) -> None:
        self.spec = spec
        self.num_lanes = num_lanes
        self.observation = np.zeros((num_lanes, *spec.observation_shape), spec.observation_dtype)

    def reset(self, lanes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Return the observations that the caller provided."""
        return self.observation

    def step(self, action: np.ndarray) -> Step:
        """Refuse: there is no environment to step."""
        raise NotImplementedError

    def render(self, lane: int) -> np.ndarray:
        """Refuse: there is no picture."""
        raise NotImplementedError

    def running_episode(self, lane: int) -> None:
        """Return None: no episode is played here."""

    def state_dict(self) -> dict[str, Any]:
        """Return an empty state: there is nothing to save."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Restore nothing, and report success for all lanes."""
        return np.ones(self.num_lanes, bool)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class PolicyState:
    """The memory of one stream of episodes, or of several side by side.

    It holds recurrent states, novelty and the latest actions, and changes in place.
    """

    def __init__(self, given: GivenObservations, player: Player, is_batch: bool) -> None:
        self.given = given
        self.player = player
        self.is_batch = is_batch
        self.decision: Decision | None = None  # the latest decision, whose reward comes next

    @property
    def intrinsic(self) -> dict[str, Any]:
        """Novelty and modulation of the latest observation; empty if no arm is curious."""
        curiosity = self.player.curiosity
        if curiosity is None:
            return {}
        if self.is_batch:
            return {name: values.copy() for name, values in curiosity.last.items()}
        return {name: float(values[0]) for name, values in curiosity.last.items()}


class Policy:
    """Acts as one arm of a trained run."""

    def __init__(
        self, run: TrainedRun, arm: int | None, epsilon: float, seed: int, device: torch.device
    ) -> None:
        self._run = run
        self._epsilon = epsilon
        self._seed = seed
        self._device = device
        self._num_streams = 0
        self.arm = run.choose_arm(arm)
        self.beta, self.gamma = run.beta_gamma(self.arm)
        self.spec = run.task()
        self._networks = run.make_networks(self.spec)

    def __repr__(self) -> str:
        config = self._run.config
        return (
            f"<Policy of {config.run.agent} on {config.env.name}: arm {self.arm}, "
            f"{self._run.counters['frames']:,} frames trained>"
        )

    def initial_state(self, num_streams: int | None = None) -> PolicyState:
        """Return the state before the first episode; each stream has its own random numbers.

        num_streams: the size of a batch, for which `act` takes and returns arrays
        """
        num_lanes = 1 if num_streams is None else num_streams
        given = GivenObservations(self.spec, num_lanes)
        player = self._run.make_player(
            given, self._epsilon, self._seed, self._device, self._num_streams, self._networks
        )
        self._num_streams += num_lanes
        return PolicyState(given, player, num_streams is not None)

    def act(
        self,
        observation: np.ndarray,
        state: PolicyState,
        reward: float | np.ndarray = 0.0,
        first: bool | np.ndarray = False,
    ) -> tuple[Any, PolicyState]:
        """Return the action to play at an observation, and the state for the next call.

        reward: the unclipped reward of the previous action
        first: whether the observation begins an episode; the first call of a state always does

        In a batch, `observation` has a row for each stream. `reward` and `first` are arrays, or one
        value for all streams. The actions come as an array.
        """
        num_lanes = state.given.num_lanes
        observation = self._checked(observation, num_lanes, state.is_batch)
        begins = np.broadcast_to(np.asarray(first, bool), num_lanes)
        if state.decision is None:
            begins = np.ones(num_lanes, bool)
        if state.decision is not None and not begins.all():
            step = Step(
                observation=observation,
                reward=np.broadcast_to(np.asarray(reward, np.float32), num_lanes).copy(),
                terminated=np.zeros(num_lanes, bool),
                truncated=np.zeros(num_lanes, bool),
            )
            state.player.arrive(state.decision, step)
        if begins.any():
            state.given.observation = observation
            state.player.begin(begins.copy(), np.full(num_lanes, self.arm))
        state.decision = state.player.decide()
        action = state.decision.action
        return (action.copy() if state.is_batch else int(action[0])), state

    def _checked(self, observation: np.ndarray, num_lanes: int, is_batch: bool) -> np.ndarray:
        """Check an observation, and copy it with a row for each stream."""
        given, spec = np.asarray(observation), self.spec
        shape = (num_lanes, *spec.observation_shape) if is_batch else spec.observation_shape
        if given.shape != shape:
            raise ValueError(
                f"{spec.name} is observed as {spec.observation_dtype} {shape}, got shape "
                f"{given.shape}; policy.make_env() gives observations of the right shape"
            )
        if spec.observation_dtype == "uint8" and given.dtype != np.uint8:
            raise ValueError(f"{spec.name} is observed as uint8, got {given.dtype}")
        copy = np.array(given, dtype=spec.observation_dtype)
        return copy.reshape(num_lanes, *spec.observation_shape)

    def make_env(self) -> OneLane:
        """Make the task as a Gymnasium environment, with the preprocessing of the training."""
        return OneLane(self._run.config.env)

    def save(self, file: str | Path, *, half: bool = False) -> int:
        """Write all arms to one small file that `agent57.load` reads anywhere; return its bytes.

        half: store weights in half precision, which halves the file and rounds the weights.
        """
        return write_policy(self._run, self.spec, Path(file), half=half)


class LoadOptions(TypedDict, total=False):
    """The options of `load` by name, for functions that pass them on."""

    epsilon: float
    seed: int
    device: str
    trust: bool


def load(
    path: str | Path,
    arm: int | None = None,
    *,
    epsilon: float = 0.0,
    seed: int = 0,
    device: str = "auto",
    trust: bool = False,
) -> Policy:
    """Load the policy of a run folder or of a policy file.

    arm: arm j of the family; by default the surest, by mean return less one standard error
    epsilon: probability of a random action (the paper evaluates with 0.01)
    seed: seed of random actions, and of the random "previous action" at the start of an episode
    trust: run the code of an environment that is not an installed package
    """
    run = read_trained(Path(path))
    for text in run.damaged:
        warnings.warn(f"{text}: using the checkpoint before it", RuntimeWarning, stacklevel=2)
    if trust:
        trust_env(run.config.env.name)
    return Policy(run, arm, epsilon, seed, choose_device(device))
