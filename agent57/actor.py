"""Gathers experience: a player with a bandit per lane, whose steps are cut into blocks.

- each lane is one of the paper's L actors, with its own epsilon_l and its own bandit
- the bandit chooses the arm of each episode and learns from its undiscounted extrinsic return
- initial priorities come from the actor's own values, by the learner's formula
- weights are pulled every `pull_period` steps
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from agent57.bandit import make_controller
from agent57.config import Config
from agent57.envs.spec import VectorEnv
from agent57.glances import glances
from agent57.ops.family import annealed, betas, gammas, lane_epsilons
from agent57.ops.td import (
    fresh_squares,
    learned_values,
    saved_squares,
    split_outputs,
    target_policy,
    td_errors,
    td_scale,
    window_priorities,
)
from agent57.own_parts import ArmController
from agent57.player import Player, PublishedWeights
from agent57.replay.assembler import Assembler
from agent57.replay.block import Block, Layout
from agent57.seeds import Role, generator
from agent57.types import Episode, Played, Windows


class Actor:
    """E of the run's L lanes; the first one has the global index `first_lane`."""

    def __init__(
        self,
        config: Config,
        env: VectorEnv,
        layout: Layout,
        published: PublishedWeights,
        device: torch.device,
        first_lane: int = 0,
    ) -> None:
        self._config = config
        self._env = env
        self._published = published
        lanes = np.arange(first_lane, first_lane + env.num_lanes)
        self._epsilon = lane_epsilons(
            config.actor.epsilon, config.actor.epsilon_alpha, lanes, config.actor.lanes
        )
        roles = (Role.ACTOR_EPISODES, Role.ACTOR_ACTIONS)
        self.player = Player(config, env, self._epsilon, roles, first_lane, device)
        self._controllers: list[ArmController] = [
            make_controller(
                config.controller,
                config.family.arms,
                int(lane),
                generator(config.run.seed, Role.ACTOR_BANDIT, int(lane)),
            )
            for lane in lanes
        ]
        self._assembler = Assembler(
            config.sequence,
            layout,
            env.num_lanes,
            self._priorities,
            first_lane=first_lane,
            compression=config.replay.compression,
            threads=config.replay.threads,
        )
        self._beta = torch.from_numpy(betas(config.family)).float()
        self._gamma = torch.from_numpy(gammas(config.family)).float()
        self._td_squares = fresh_squares(config)
        self._needs_begin = np.ones(env.num_lanes, dtype=bool)
        self.num_steps = 0  # of each lane
        self.weights_version = -1

    @property
    def num_frames(self) -> int:
        """Emulator frames played by all lanes."""
        return self.num_transitions * self._env.spec.frames_per_step

    @property
    def num_transitions(self) -> int:
        """Agent steps played by all lanes."""
        return self.num_steps * self._env.num_lanes

    def step(self) -> tuple[list[Block], list[Episode], dict[str, float]]:
        """Play one step in every lane; return new blocks, ended episodes and scalars to log."""
        if self.num_steps % self._config.actor.pull_period == 0:
            self._pull()
        if self._needs_begin.any():
            self._begin()
        steps_of_run = self.num_steps * self._config.actor.lanes
        self.player.epsilon = annealed(self._epsilon, steps_of_run, self._config.actor.anneal_steps)
        played = self.player.step()
        self.num_steps += 1
        blocks = self._assembler.add(played)
        self._needs_begin = played.terminated | played.truncated
        return blocks, self._finish(), self._diagnostics(played)

    def _pull(self) -> None:
        weights, version = self._published()
        if version != self.weights_version:
            self.player.load_weights(weights, version)
            self._td_squares = weights["td_squares"].cpu().clone()
            self.weights_version = version

    def _begin(self) -> None:
        arms = np.zeros(self._env.num_lanes, dtype=np.int64)
        for lane in np.flatnonzero(self._needs_begin):
            arms[lane] = self._controllers[lane].select()
        self.player.begin(self._needs_begin, arms)

    def _finish(self) -> list[Episode]:
        """Report the episodes that ended and teach the bandits their returns."""
        episodes = self.player.ended_episodes(self._needs_begin, "actor", self.num_frames)
        for episode in episodes:
            controller = self._controllers[episode.lane - self.player.first_lane]
            controller.observe(episode.arm, episode.episode_return)
        return episodes

    @torch.inference_mode()
    def _priorities(self, windows: Windows, outputs: Tensor) -> Tensor:
        """Initial priorities of new windows: the actor's values are both online and target."""
        config = self._config
        beta, gamma = self._beta[windows.arm], self._gamma[windows.arm]
        value, logits = split_outputs(outputs, config)
        learned = learned_values(value, beta, config)
        scale = td_scale(self._td_squares)
        td = td_errors(
            learned,
            learned,
            windows,
            beta=beta,
            gamma=gamma,
            loss=config.learner,
            values=config.learned_kind,
            scale=scale,
            policy=target_policy(logits, config.learner),
        )
        priorities, _ = window_priorities(td, scale, windows, beta, config)
        if not torch.isfinite(priorities).all():
            raise FloatingPointError("the first priority of a window is not finite")
        return priorities

    def _diagnostics(self, played: Played) -> dict[str, float]:
        """Return means over the lanes, of one step."""
        scalars = {"reward/extrinsic": float(played.extrinsic.mean())}
        if self.player.curiosity is not None:
            scalars["reward/intrinsic"] = float(played.intrinsic.mean())
            for name, factor in self.player.curiosity.last.items():
                scalars[f"curiosity/{name}"] = float(factor.mean())
        return scalars

    def summary(self) -> dict[str, float | None]:
        """Return plays and mean return of each arm, over the windows of all lanes' bandits."""
        counts, totals = np.zeros(self._config.family.arms), np.zeros(self._config.family.arms)
        for controller in self._controllers:
            lane_counts, lane_means = controller.statistics()
            counts += lane_counts
            totals += lane_counts * lane_means
        plays = {f"arm_plays/{j}": float(n) for j, n in enumerate(counts)}
        returns = {f"arm_return/{j}": float(totals[j] / n) for j, n in enumerate(counts) if n}
        return {**plays, **returns}

    def lanes(self, count: int) -> list[dict[str, Any]]:
        """Describe what the first lanes are doing, for a viewer."""
        return [{"source": "actor", **told} for told in glances(self.player, count)]

    @property
    def num_waiting(self) -> int:
        """Steps played that no block holds yet."""
        return self._assembler.num_waiting

    def lasting_state(self) -> dict[str, Any]:
        """Return the state that outlives an episode, for a process that starts new episodes."""
        return {
            "player": self.player.lasting_state(),
            "controllers": [controller.state_dict() for controller in self._controllers],
            "num_steps": self.num_steps,
        }

    def load_lasting_state(self, state: dict[str, Any]) -> None:
        """Take over the bandits of an actor that is gone, and begin new episodes in all lanes."""
        self.player.load_lasting_state(state["player"])
        for controller, saved in zip(self._controllers, state["controllers"], strict=True):
            controller.load_state_dict(saved)
        self.num_steps = int(state["num_steps"])

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on in mid-episode."""
        return {
            "player": self.player.state_dict(),
            "controllers": [controller.state_dict() for controller in self._controllers],
            "assembler": self._assembler.state_dict(),
            "td_squares": self._td_squares.clone(),
            "needs_begin": self._needs_begin.tolist(),
            "num_steps": self.num_steps,
            "weights_version": self.weights_version,
        }

    def load_state_dict(self, state: dict[str, Any]) -> np.ndarray:
        """Go on from `state`; return the mask [E] of lanes that dropped their running episode."""
        dropped = self.player.load_state_dict(state["player"])
        for controller, saved in zip(self._controllers, state["controllers"], strict=True):
            controller.load_state_dict(saved)
        self._assembler.load_state_dict(state["assembler"])
        self._td_squares = saved_squares(state, state["player"]["networks"], self._td_squares)
        needs_begin = np.array(state["needs_begin"], dtype=bool)
        self._needs_begin = needs_begin.reshape(self._needs_begin.shape)
        self.num_steps = int(state["num_steps"])
        self.weights_version = int(state["weights_version"])
        dropped &= ~self._needs_begin
        if dropped.any():
            self._assembler.abandon(dropped)
            self._needs_begin = self._needs_begin | dropped
        return dropped
