"""Process wrappers of the four parts, which exchange messages.

Nothing here depends on how messages are carried or when calls are made; see `conductor`. Batches
and weights travel as plain arrays, which a store of objects can share without copying. A worker
does its setup in `start`, not in its constructor, so that an error there is an ordinary answer.
"""

import os
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from agent57.actor import Actor
from agent57.allocator import give_back_freed_memory, keep_freed_memory
from agent57.config import Config
from agent57.data_parallel import LearnerGroup
from agent57.envs.gymnasium import trust
from agent57.envs.make import make_env
from agent57.evaluator import Evaluator
from agent57.learner import Learner
from agent57.nets.networks import make_networks
from agent57.player import Weights
from agent57.replay.block import Block, Layout
from agent57.replay.buffer import Replay
from agent57.seeds import Role, generator
from agent57.storage.means import Means
from agent57.types import Batch, EnvSpec, Episode
from agent57.video.lane_files import SHOWN_LANES

Arrays = dict[str, np.ndarray]
State = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayReport:
    """The answer of an actor or of the evaluator to one call to play."""

    steps: int  # agent steps of all its lanes in this call
    sent: int  # steps, of this call or earlier, in the blocks that come with this report
    waiting: int  # steps that are in no block yet
    windows: int  # windows that the blocks complete
    version: int  # of the weights it played with
    episodes: list[Episode]
    scalars: dict[str, float]  # means over the steps
    summary: dict[str, float | None]
    lasting: bytes  # packed state from which another process can take over
    lanes: list[State]  # descriptions of a few lanes for viewers


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The answer of a shard to one call to add blocks."""

    added: int  # transitions added
    windows: int  # windows that became complete
    weight: float  # of all windows; shards are drawn from in proportion to it


def packed(state: State) -> bytes:
    """Pack a state for a driver that passes it on without looking inside.

    Unpacking the tensors of each report took half of the driver's time.
    """
    return pickle.dumps(state)


def unpacked(message: bytes) -> State:
    """Return the state that `packed` was given. Only unpack messages from this run's processes."""
    state: State = pickle.loads(message)
    return state


def arrays_of(weights: Weights) -> Arrays:
    """Return weights as contiguous arrays."""
    return {name: np.ascontiguousarray(value.cpu().numpy()) for name, value in weights.items()}


def tensors_of(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Return tensors that share the arrays' memory. They must not be written to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that they are not writable
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def on_cpu(tree: Any) -> Any:  # noqa: ANN401
    """Return nested containers with every tensor moved to the CPU."""
    if isinstance(tree, torch.Tensor):
        return tree.cpu()
    if isinstance(tree, dict):
        return {name: on_cpu(value) for name, value in tree.items()}
    return [on_cpu(value) for value in tree] if isinstance(tree, list) else tree


def settle_in(num_threads: int) -> None:
    """Prepare a new process for torch: memory and threads."""
    keep_freed_memory()
    torch.set_num_threads(num_threads)


def _restore(part: Actor | Evaluator, state: State | None, lasting: bytes | None) -> int:
    """Load `state` or `lasting`, if given; return the number of running episodes dropped."""
    if state is not None:
        return int(part.load_state_dict(state).sum())
    if lasting is not None:
        part.load_lasting_state(unpacked(lasting))
    return 0


class ActorWorker:
    """An actor: plays the E lanes from `index` x E on."""

    def __init__(self, config: Config, index: int, layout: Layout) -> None:
        self._config = config
        self._index = index
        self._layout = layout
        self._published: tuple[Weights, int] = ({}, -1)
        self._is_in_play = False

    def start(self, state: State | None, lasting: bytes | None) -> int:
        """Begin anew, go on from `state`, or take over with new episodes from `lasting`.

        Return the number of running episodes that had to be dropped.
        """
        num_threads = self._config.cluster.actor_threads
        settle_in(num_threads)
        config = replace(self._config, replay=replace(self._config.replay, threads=num_threads))
        lanes = self._config.lanes_per_actor
        device = torch.device("cuda" if self._config.cluster.actor_gpus else "cpu")
        trust(self._config.env.name)  # as the driver did
        env = make_env(self._config.env, lanes)
        self._actor = Actor(
            config, env, self._layout, lambda: self._published, device, self._index * lanes
        )
        self._is_in_play = state is not None
        return _restore(self._actor, state, lasting)

    def play(self, weights: Arrays, version: int) -> tuple[list[Block], PlayReport]:
        """Play `pull_period` steps with these weights; return blocks and a report.

        A call begins at a step where `Actor` pulls weights.
        """
        self._published = tensors_of(weights), version
        self._is_in_play = True
        actor, before = self._actor, self._actor.num_transitions
        blocks: list[Block] = []
        episodes: list[Episode] = []
        scalars = Means()
        for _ in range(self._config.actor.pull_period):
            new_blocks, new_episodes, diagnostics = actor.step()
            blocks += new_blocks
            episodes += new_episodes
            scalars.add(diagnostics)
        self._published = ({}, version)  # free the weights, which are not needed until then
        return blocks, PlayReport(
            steps=actor.num_transitions - before,
            sent=sum(block.length for block in blocks),
            waiting=actor.num_waiting,
            windows=sum(block.completes_window(self._config.sequence) for block in blocks),
            version=version,
            episodes=episodes,
            scalars=scalars.means(),
            summary=actor.summary(),
            lasting=packed(actor.lasting_state()),
            lanes=[] if self._index else actor.lanes(SHOWN_LANES["actor"]),
        )

    def state_dict(self) -> State | None:
        """Return everything needed to go on in mid-episode; None before the first episode."""
        give_back_freed_memory()
        return self._actor.state_dict() if self._is_in_play else None


class EvaluatorWorker:
    """The evaluator, which plays as many steps per call as an actor."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._published: tuple[Weights, int] = ({}, -1)
        self._is_in_play = False

    def start(
        self, state: State | None, lasting: bytes | None, weights: Arrays, version: int
    ) -> int:
        """Begin anew, go on from `state`, or take over with new episodes from `lasting`.

        An evaluator that takes over in mid-phase plays with these weights until the next phase.
        Return the number of running episodes that had to be dropped.
        """
        settle_in(self._config.cluster.actor_threads)
        self._published = tensors_of(weights), version
        trust(self._config.env.name)  # as the driver did
        env = make_env(self._config.env, self._config.evaluator.lanes)
        cpu = torch.device("cpu")
        self._evaluator = Evaluator(self._config, env, lambda: self._published, cpu)
        self._is_in_play = state is not None
        return _restore(self._evaluator, state, lasting)

    def play(self, weights: Arrays, version: int, frames: int) -> PlayReport:
        """Play `pull_period` steps. A phase that begins meanwhile takes these weights.

        `frames`: frames trained on so far
        """
        self._published = tensors_of(weights), version
        self._is_in_play = True
        num_steps = self._config.actor.pull_period
        episodes: list[Episode] = []
        for _ in range(num_steps):
            episodes += self._evaluator.step(frames)
        return PlayReport(
            steps=num_steps * self._config.evaluator.lanes,
            sent=0,
            waiting=0,
            windows=0,
            version=version,
            episodes=episodes,
            scalars={},
            summary=self._evaluator.summary(),
            lasting=packed(self._evaluator.lasting_state()),
            lanes=self._evaluator.lanes(SHOWN_LANES["evaluator"]),
        )

    def state_dict(self) -> State | None:
        """Return everything needed to go on in mid-episode; None before the first episode."""
        give_back_freed_memory()
        return self._evaluator.state_dict() if self._is_in_play else None


class ShardWorker:
    """A shard of the replay: holds all blocks of some of the actors."""

    def __init__(self, config: Config, index: int, layout: Layout) -> None:
        self._config = config
        self._index = index
        self._layout = layout
        self._arrived: list[Block] = []

    def take(self, blocks: list[Block]) -> None:
        """Receive blocks to start with, oldest first."""
        self._arrived += blocks

    def start(self, state: State | None) -> int:
        """Begin empty, or from `state` and the blocks of `take`; return the transitions held."""
        settle_in(1)
        capacity = self._config.replay.capacity // self._config.cluster.shards
        self._replay = Replay(
            replace(self._config.replay, capacity=capacity),
            self._config.sequence,
            self._layout,
            generator(self._config.run.seed, Role.REPLAY, self._index),
        )
        if state is not None:
            blocks = enumerate(self._arrived, state["store"]["oldest_id"])
            self._replay.load_state_dict(state, blocks)
            self._arrived = []
        return self._replay.num_transitions

    def add(self, blocks: list[Block]) -> Holding:
        """Store blocks in the order they were played; earlier blocks may have been lost."""
        before = self._replay.num_windows_inserted
        for block in blocks:
            self._replay.add(block, allow_gap=True)
        return Holding(
            added=sum(block.length for block in blocks),
            windows=self._replay.num_windows_inserted - before,
            weight=self._replay.total_weight,
        )

    def sample(self, num_windows: int, share: float) -> tuple[Arrays, float]:
        """Draw windows; return them and the weight of this shard.

        `share`: probability of drawing from this shard
        """
        batch = self._replay.sample(num_windows)
        arrays = {field.name: getattr(batch, field.name).numpy() for field in fields(Batch)}
        arrays["probability"] = arrays["probability"] * share
        return arrays, self._replay.total_weight

    def reprioritise(self, priorities: tuple[np.ndarray, np.ndarray]) -> None:
        """Write new priorities, given as keys of windows and priorities."""
        keys, values = tensors_of(dict(zip(("keys", "values"), priorities, strict=True))).values()
        self._replay.reprioritise(keys, values)

    def summary(self) -> dict[str, float | None]:
        """Return the summary of this shard."""
        return self._replay.summary()

    def live_ids(self) -> range:
        """Return the ids of the blocks held."""
        return self._replay.live_ids

    def blocks(self, first_id: int, count: int) -> list[Block]:
        """Return at most `count` of the blocks held, from `first_id` on."""
        return [block for _, block in self._replay.blocks(first_id)[:count]]

    def state_dict(self) -> State:
        """Return everything needed to go on, except the blocks."""
        give_back_freed_memory()
        return self._replay.state_dict()


class LearnerWorker:
    """One learner, alone or in a group of learners that act as one."""

    def __init__(self, config: Config, spec: EnvSpec, device: str) -> None:
        self._config = config
        self._spec = spec
        self._device = torch.device(device)

    def start(self, state: State | None, meeting: str, rank: int) -> None:
        """Begin anew, or go on from `state`. Several learners meet at the file `meeting`."""
        settle_in(self._config.run.threads or os.cpu_count() or 1)
        num_learners = self._config.cluster.learners
        group = None
        if num_learners > 1:
            for library in ("GLOO", "NCCL"):  # all learners are on one machine
                os.environ.setdefault(f"{library}_SOCKET_IFNAME", "lo")
            group = LearnerGroup.join(f"file://{meeting}", rank, num_learners, self._device)
        networks = make_networks(self._config, self._spec)
        self._learner = Learner(self._config, networks, self._device, group)
        if state is not None:
            self._learner.load_state_dict(state)

    def update(self, *parts: Arrays) -> Any:  # noqa: ANN401
        """Update on the windows of all parts; return metrics, then keys and priorities by part."""
        update = self._learner.update(Batch.joined([Batch(**tensors_of(part)) for part in parts]))
        sizes = [len(part["key"]) for part in parts]
        split = np.split(update.priorities.numpy(), np.cumsum(sizes)[:-1])
        answers = [(part["key"], values) for part, values in zip(parts, split, strict=True)]
        return update.metrics, *answers

    def weights(self) -> tuple[Arrays, int]:
        """Return the weights of the online networks, and their number of updates."""
        weights, num_updates = self._learner.weights()
        return arrays_of(weights), num_updates

    def num_updates(self) -> int:
        """Return the number of updates that this learner has made."""
        return self._learner.num_updates

    def state_dict(self) -> State:
        """Return everything needed to go on, with all tensors on the CPU."""
        give_back_freed_memory()
        return on_cpu(self._learner.state_dict())
