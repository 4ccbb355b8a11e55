"""Plays E lanes of a task with the value networks: the only place that acts.

Warm-up, training and evaluation run the same code. They differ in epsilon, in who chooses the arms
and in the use of the steps. A player does not choose arms, store experience or learn.

One step: values of all lanes in one batch -> epsilon-greedy actions with their true probabilities
-> the emulators -> embedding, RND and episodic novelty of the new states.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent57.allocator import keep_freed_memory
from agent57.config import Config
from agent57.curiosity.own_reward import OwnCuriosity
from agent57.curiosity.reward import Curiosity, versions_held
from agent57.envs.spec import Step, VectorEnv
from agent57.nets.networks import Networks, make_networks
from agent57.ops.family import betas, gammas
from agent57.ops.policy import choose_actions, sample_actions
from agent57.ops.td import mixed_values, split_outputs, target_policy
from agent57.own_parts import own_reward
from agent57.seeds import LaneUniforms, Role, sequence
from agent57.threads import SideBySide
from agent57.types import Episode, Played

Weights = dict[str, Tensor]
PublishedWeights = Callable[[], tuple[Weights, int]]  # the learner's weights and their version


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Actions that the lanes are about to play, and the values behind them."""

    action: np.ndarray  # [E] int64
    action_prob: np.ndarray  # [E] float32
    outputs: Tensor  # [O, E, A], values and logits of the current observations
    next_state: Tensor  # [C, 2, E, H], recurrent state after them


class EpisodeTotals:
    """Length and returns of the running episodes of E lanes."""

    def __init__(self, num_lanes: int) -> None:
        self.length = np.zeros(num_lanes, dtype=np.int64)
        self.extrinsic = np.zeros(num_lanes)
        self.intrinsic = np.zeros(num_lanes)

    def add(self, played: Played) -> None:
        """Take one step into account."""
        self.length += 1
        self.extrinsic += played.extrinsic
        self.intrinsic += played.intrinsic

    def clear(self, lanes: np.ndarray) -> None:
        """Start over in the lanes of the mask [E]."""
        self.length[lanes] = 0
        self.extrinsic[lanes] = 0
        self.intrinsic[lanes] = 0

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        return {k: torch.from_numpy(v.copy()) for k, v in vars(self).items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        for name, value in vars(self).items():
            value[:] = state[name].numpy()


class Player:
    """E lanes, each in an episode of its own arm, advanced together step by step."""

    def __init__(
        self,
        config: Config,
        env: VectorEnv,
        epsilon: np.ndarray,
        roles: tuple[Role, Role],
        first_lane: int,
        device: torch.device,
        networks: Networks | None = None,
        *,
        is_evaluated: bool = False,
    ) -> None:
        """`networks` may be shared with other players; by default the player makes its own.

        A player that `is_evaluated` plays the averaged value networks, where there are any.
        """
        keep_freed_memory()
        self.config = config
        self.env = env
        self.epsilon = epsilon
        self._episode_role, action_role = roles
        self.first_lane = first_lane
        self._device = device
        self._beta, self._gamma = betas(config.family), gammas(config.family)
        networks = networks or make_networks(config, env.spec)
        self.networks = networks.to(device).eval().requires_grad_(False)
        self._value_nets = self.networks.evaluated if is_evaluated else self.networks.value
        self._uniforms = LaneUniforms(config.run.seed, action_role, first_lane, env.num_lanes)
        self._side_by_side = SideBySide(device)
        self.curiosity = self._make_curiosity()

        lanes, spec = env.num_lanes, env.spec
        self.totals = EpisodeTotals(lanes)
        self.num_begun = np.zeros(lanes, dtype=np.int64)
        self._see(np.zeros((lanes, *spec.observation_shape), spec.observation_dtype))
        rewards = np.zeros(lanes, dtype=np.float32)
        # Action, extrinsic and intrinsic reward of the step before the current observations.
        self._previous = (np.zeros(lanes, dtype=np.int64), rewards, rewards)
        self._arm = np.zeros(lanes, dtype=np.int64)
        shape = (self.networks.num_cores, 2, lanes, self.networks.state_size)
        self._state = torch.zeros(shape, device=device)
        self.played: Played | None = None  # the latest step

    def _make_curiosity(self) -> Curiosity | OwnCuriosity | None:
        name, lanes = self.config.curiosity.own_reward, self.env.num_lanes
        if name and self.config.family.is_curious:
            return OwnCuriosity(own_reward(name)(lanes, self.env.spec), lanes)
        embedding, rnd = self.networks.embedding, self.networks.rnd
        if embedding is None or rnd is None:
            return None
        versions = versions_held(self.config.actor.embedding_versions, lanes)
        return Curiosity(embedding, rnd, lanes, versions, self.config.curiosity, self._side_by_side)

    def load_weights(self, weights: Weights, version: int) -> None:
        """Copy the learner's weights; running episodes keep the embedding they began with."""
        self.networks.load_state_dict(weights)
        if self.curiosity is not None:
            self.curiosity.refresh(version)

    @torch.inference_mode()
    def begin(self, lanes: np.ndarray, arms: np.ndarray) -> None:
        """Start new episodes in the lanes of the mask [E], with the given arms [E]."""
        seeds = np.zeros(len(lanes), dtype=np.int64)
        action, extrinsic, intrinsic = self._previous
        action = action.copy()  # the old array belongs to a `Played`
        for lane in np.flatnonzero(lanes):
            counters = (self.first_lane + int(lane), int(self.num_begun[lane]))
            root = sequence(self.config.run.seed, self._episode_role, *counters)
            env_seed, action_seed = root.generate_state(2)
            seeds[lane] = env_seed >> 1  # emulators want 31 bits
            action[lane] = action_seed % self.env.spec.num_actions
        zero = np.float32(0)
        self._previous = action, np.where(lanes, zero, extrinsic), np.where(lanes, zero, intrinsic)
        self.num_begun[lanes] += 1
        self.totals.clear(lanes)
        self._see(self.env.reset(lanes, seeds))
        self._arm = np.where(lanes, arms, self._arm)
        keep = torch.from_numpy(~lanes).to(self._device)
        self._state = self._state * keep[:, None]
        if self.curiosity is not None:
            self.curiosity.begin(lanes, self._prepared)

    def step(self) -> Played:
        """Play one action in every lane. Lanes whose episode ended must be begun anew."""
        decision = self.decide()
        return self.arrive(decision, self.env.step(decision.action))

    @torch.inference_mode()
    def decide(self) -> Decision:
        """Choose an action in every lane."""
        outputs, next_state = self._outputs()
        value, logits = split_outputs(outputs, self.config)
        policy = target_policy(logits, self.config.learner)
        mixed = (self._mix(value) if policy is None else policy).cpu().numpy()
        is_finite = np.isfinite(mixed).all(axis=1)
        if not is_finite.all():
            lane = self.first_lane + int(np.argmin(is_finite))
            raise FloatingPointError(f"the value networks' answer in lane {lane} is not finite")
        choose = choose_actions if policy is None else sample_actions
        action, action_prob = choose(mixed, self.epsilon, self._uniforms.next())
        return Decision(
            action=action, action_prob=action_prob, outputs=outputs, next_state=next_state
        )

    @torch.inference_mode()
    def arrive(self, decision: Decision, step: Step) -> Played:
        """Take in the outcome of the chosen actions."""
        before, state, previous = self._observation, self._state, self._previous
        self._state = decision.next_state
        self._see(step.observation)
        intrinsic = (
            np.zeros_like(step.reward)
            if self.curiosity is None
            else self.curiosity.reward(self._prepared)
        )
        self._previous = decision.action, step.reward, intrinsic
        final_outputs = self._outputs()[0] if step.truncated.any() else decision.outputs
        value, logits = self._split(decision.outputs)
        final_value, final_logits = self._split(final_outputs)
        played = Played(
            observation=before,
            previous_action=previous[0],
            previous_extrinsic=previous[1],
            previous_intrinsic=previous[2],
            action=decision.action,
            action_prob=decision.action_prob,
            extrinsic=step.reward,
            intrinsic=intrinsic,
            terminated=step.terminated,
            truncated=step.truncated,
            next_observation=step.observation,
            arm=self._arm,
            state=state.cpu().numpy(),
            value=value,
            final_value=final_value,
            logits=logits,
            final_logits=final_logits,
        )
        self.totals.add(played)
        self.played = played
        return played

    def ended_episodes(self, lanes: np.ndarray, source: str, frames: int) -> list[Episode]:
        """Return records of the episodes that have just ended in the lanes of the mask [E]."""
        return [
            Episode(
                source=source,
                phase="train",
                lane=self.first_lane + int(lane),
                arm=int(self._arm[lane]),
                beta=float(self._beta[self._arm[lane]]),
                gamma=float(self._gamma[self._arm[lane]]),
                frames=frames,
                length=int(self.totals.length[lane]),
                episode_return=float(self.totals.extrinsic[lane]),
                intrinsic_return=float(self.totals.intrinsic[lane]),
            )
            for lane in np.flatnonzero(lanes)
        ]

    def _see(self, observation: np.ndarray) -> None:
        """Make these the current observations, also as the networks' input."""
        self._observation = observation
        self._prepared = self.networks.prepare(torch.from_numpy(observation).to(self._device))

    def _split(self, outputs: Tensor) -> tuple[np.ndarray, np.ndarray | None]:
        value, logits = split_outputs(outputs.cpu(), self.config)
        return value.numpy(), None if logits is None else logits.numpy()

    def _outputs(self) -> tuple[Tensor, Tensor]:
        """Return the outputs [O, E, A] for the current observations, and the states after them."""
        previous = [torch.from_numpy(x).to(self._device)[None] for x in self._previous]
        arm = torch.from_numpy(self._arm).to(self._device)
        outputs, state = self._value_nets(
            self._prepared[None], *previous, arm, self._state, run=self._side_by_side
        )
        return outputs[:, 0], state

    def _mix(self, value: Tensor) -> Tensor:
        """Return Q = Q^e + beta_j Q^i by each lane's arm (paper, section 3.1)."""
        beta = torch.from_numpy(self._beta[self._arm]).float().to(self._device)
        return mixed_values(value, beta, self.config)

    def lasting_state(self) -> dict[str, Any]:
        """Return the state that outlives episodes: positions in random streams, novelty scales."""
        return {
            "uniforms": self._uniforms.state_dict(),
            "num_begun": torch.from_numpy(self.num_begun.copy()),
            "curiosity": None if self.curiosity is None else self.curiosity.lasting_state(),
        }

    def load_lasting_state(self, state: dict[str, Any]) -> None:
        """Go on with what `lasting_state` returned; all lanes must be begun anew."""
        self._uniforms.load_state_dict(state["uniforms"])
        self.num_begun = state["num_begun"].numpy().copy()
        if self.curiosity is not None:
            self.curiosity.load_lasting_state(state["curiosity"])

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on in mid-episode."""
        return {
            "networks": {k: v.cpu().clone() for k, v in self.networks.state_dict().items()},
            "uniforms": self._uniforms.state_dict(),
            "curiosity": None if self.curiosity is None else self.curiosity.state_dict(),
            "env": self.env.state_dict(),
            "totals": self.totals.state_dict(),
            "num_begun": torch.from_numpy(self.num_begun.copy()),
            "observation": torch.from_numpy(self._observation.copy()),
            "previous": [torch.from_numpy(x.copy()) for x in self._previous],
            "arm": torch.from_numpy(self._arm.copy()),
            "state": self._state.cpu().clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Go on from `state`; return the mask [E] of lanes whose episode could not be rebuilt."""
        self.networks.load_state_dict(state["networks"])
        self._uniforms.load_state_dict(state["uniforms"])
        if self.curiosity is not None:
            self.curiosity.load_state_dict(state["curiosity"])
        self.totals.load_state_dict(state["totals"])
        self.num_begun = state["num_begun"].numpy().copy()
        self._see(state["observation"].numpy().copy())
        action, extrinsic, intrinsic = (x.numpy().copy() for x in state["previous"])
        self._previous = action, extrinsic, intrinsic
        self._arm = state["arm"].numpy().copy()
        self._state = state["state"].to(self._device)
        return ~self.env.load_state_dict(state["env"])
