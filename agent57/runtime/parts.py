"""The four parts of a run in one process: builds, saves, restores and summarises them.

`Cluster` in `cluster/conductor.py` offers the same methods for parts in separate processes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from agent57.actor import Actor
from agent57.config import Config
from agent57.envs.make import make_env
from agent57.evaluator import Evaluator
from agent57.learner import Learner
from agent57.nets.networks import make_networks
from agent57.replay.block import Block, make_layout
from agent57.replay.buffer import Replay
from agent57.seeds import Role, generator
from agent57.video.lane_files import SHOWN_LANES


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The four parts of a run."""

    actor: Actor
    replay: Replay
    learner: Learner
    evaluator: Evaluator

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on, except the replay's blocks: see `blocks`."""
        return {
            "actor": self.actor.state_dict(),
            "replay": self.replay.state_dict(),
            "learner": self.learner.state_dict(),
            "evaluator": self.evaluator.state_dict(),
        }

    def learner_state(self) -> dict[str, Any]:
        """Return the state of the learner alone."""
        return self.learner.state_dict()

    @property
    def oldest_block(self) -> int:
        """The lowest id of the replay's blocks."""
        return self.replay.live_ids.start

    def blocks(self, first_id: int) -> list[tuple[int, Block]]:
        """Return the ids and blocks of the replay from `first_id` on."""
        return self.replay.blocks(first_id)

    def load_state_dict(
        self, state: dict[str, Any], blocks: Iterable[tuple[int, bytes]], first_block: int
    ) -> int:
        """Go on from `state` and the replay's blocks, and drop blocks before `first_block`.

        Return the number of running episodes that were dropped.
        """
        self.learner.load_state_dict(state["learner"])
        replay = Replay.without_oldest(state["replay"], first_block)
        first_id = replay["store"]["oldest_id"]
        live = ((key, Block.from_bytes(block)) for key, block in blocks if key >= first_id)
        self.replay.load_state_dict(replay, live)
        dropped = self.actor.load_state_dict(state["actor"])
        return int(dropped.sum() + self.evaluator.load_state_dict(state["evaluator"]).sum())

    def counters(self) -> dict[str, int]:
        """Return the frames, steps and updates of the run so far."""
        return {
            "frames": self.actor.num_frames,
            "steps": self.actor.num_transitions,
            "updates": self.learner.num_updates,
        }

    def live(self) -> dict[str, float]:
        """Return figures for the terminal view that are not metrics: none in one process."""
        return {}

    def lanes(self) -> dict[str, list[dict[str, Any]]]:
        """Describe what a few lanes are doing, for a viewer."""
        return {
            "evaluator": self.evaluator.lanes(SHOWN_LANES["evaluator"]),
            "actor": self.actor.lanes(SHOWN_LANES["actor"]),
        }

    def summary(self) -> dict[str, float | None]:
        """Return the metrics of the parts for a new line of the journal."""
        return {
            **self.evaluator.summary(),
            **self.actor.summary(),
            **self.replay.summary(),
            "actor/weights_age": self.learner.num_updates - max(0, self.actor.weights_version),
        }


def build(config: Config, device: torch.device) -> Parts:
    """Build the parts of a new run."""
    env = make_env(config.env, config.actor.lanes)
    networks = make_networks(config, env.spec)
    learner = Learner(config, networks, device)
    layout = make_layout(env.spec, networks)
    return Parts(
        actor=Actor(config, env, layout, learner.weights, device),
        replay=Replay(
            config.replay,
            config.sequence,
            layout,
            generator(config.run.seed, Role.REPLAY),
            pin_memory=device.type == "cuda",
        ),
        learner=learner,
        evaluator=Evaluator(
            config, make_env(config.env, config.evaluator.lanes), learner.weights, device
        ),
    )
