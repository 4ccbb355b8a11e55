"""Small agents, a task with truncation, made-up batches, replacements for journal and session."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from agent57.config import Config, FamilyConfig, LearnerConfig, NetworkConfig, SequenceConfig
from agent57.envs.rules import RulesEnv
from agent57.envs.spec import VectorEnv
from agent57.learner import Learner
from agent57.nets.networks import Networks, make_networks
from agent57.presets import make_config
from agent57.replay.block import Layout, make_layout
from agent57.types import Batch, EnvSpec, Episode

CPU = torch.device("cpu")
SPEC = EnvSpec(
    name="walk",
    kind="vector",
    observation_shape=(4,),
    observation_dtype="float32",
    num_actions=3,
    frames_per_step=1,
    max_value=1,
)


def small_config(agent: str = "agent57", **sections: dict[str, Any]) -> Config:
    """Return a preset with tiny networks, windows of eight steps, and changes by section.

    Presets that differ only in the length of their windows are equal here.
    """
    config = make_config(agent, "tiny")
    sizes = {
        "feature_size": 12, "state_size": 6, "head_size": 10, "embedding_size": 5,
        "inverse_head_size": 8, "rnd_size": 7,
    }  # fmt: skip
    burn_in = 4 if config.sequence.burn_in else 0
    config = replace(
        config,
        network=replace(config.network, **sizes),
        sequence=SequenceConfig(trace_length=8 - burn_in, replay_period=4, burn_in=burn_in),
        replay=replace(config.replay, capacity=2000, min_windows=2, threads=1),
        learner=replace(config.learner, batch_size=4),
        actor=replace(config.actor, lanes=3, pull_period=5),
    )
    return changed(config, **sections)


def changed(config: Config, **sections: dict[str, Any]) -> Config:
    """Return the configuration with fields of its sections replaced."""
    new = {name: replace(getattr(config, name), **fields) for name, fields in sections.items()}
    return replace(config, **new)


class Walk:
    """A task whose place depends on every action, truncated after `max_steps`.

    With `terminates`, an episode terminates at some places.
    """

    optimal_return = float("nan")

    def __init__(self, max_steps: int = 7, *, terminates: bool = False) -> None:
        self.spec = SPEC
        self.max_steps = max_steps
        self._terminates = terminates

    def start(self, seeds: np.ndarray) -> np.ndarray:
        return (seeds % 101)[:, None].astype(np.int64)

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        state = (5 * state + action[:, None] + 1) % 101
        reward = (state[:, 0] / 50 - 1).astype(np.float32)
        return state, reward, (state[:, 0] % 9 == 0) & self._terminates

    def observe(self, state: np.ndarray) -> np.ndarray:
        return np.sin(state * np.array([0.7, 1.3, 2.9, 4.1])).astype(np.float32)

    def picture(self, state: np.ndarray) -> np.ndarray:
        return np.full((8, 8, 3), state[0], np.uint8)


def walk(num_lanes: int, max_steps: int = 7, *, terminates: bool = False) -> RulesEnv:
    return RulesEnv(Walk(max_steps, terminates=terminates), num_lanes)


def make_learner(config: Config, spec: EnvSpec = SPEC) -> Learner:
    torch.set_num_threads(1)
    return Learner(config, make_networks(config, spec), CPU)


def layout_of(config: Config, env: VectorEnv) -> Layout:
    return make_layout(env.spec, make_networks(config, env.spec))


def networks_of(
    network: NetworkConfig,
    kind: Literal["pixels", "grid", "vector"],
    shape: tuple[int, ...],
    max_value: int = 1,
    num_actions: int = 4,
    num_arms: int = 3,
    squash_epsilon: float = 1e-3,
) -> Networks:
    """Return networks for a made-up task; an agent with one arm is not curious."""
    config = Config(
        network=network,
        family=FamilyConfig(arms=num_arms),
        learner=LearnerConfig(squash_epsilon=squash_epsilon),
    )
    spec = EnvSpec(
        name="made up",
        kind=kind,
        observation_shape=shape,
        observation_dtype="float32" if kind == "vector" else "uint8",
        num_actions=num_actions,
        frames_per_step=1,
        max_value=max_value,
    )
    return Networks(config, spec)


def random_batch(
    config: Config,
    lengths: tuple[int, ...] = (8, 8, 8, 8),
    starts: tuple[int, ...] | None = None,
    seed: int = 0,
    spec: EnvSpec = SPEC,
) -> Batch:
    """Return windows with these numbers of valid rows; short windows end by termination."""
    rng = torch.Generator().manual_seed(seed)
    T, B, A = config.sequence.window_length, len(lengths), spec.num_actions
    networks = make_networks(config, spec)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng)

    def choice(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(high, shape, generator=rng)

    action, extrinsic = choice(A, T, B), normal(T, B)
    intrinsic = 10 * torch.rand(T, B, generator=rng)
    mask = torch.arange(T)[:, None] < torch.tensor(lengths)
    discount = mask.float()
    for column, length in enumerate(lengths):
        if length < T:
            discount[length - 1, column] = 0.0
    if spec.observation_dtype == "float32":
        observation = normal(T + 1, B, *spec.observation_shape)
    else:
        observation = choice(spec.max_value + 1, T + 1, B, *spec.observation_shape).to(torch.uint8)
    seen = torch.cat([torch.ones(1, B, dtype=torch.bool), mask])  # the bootstrap row included
    zero = torch.zeros(1, B)
    return Batch(
        observation=observation * seen.reshape(T + 1, B, *[1] * (observation.dim() - 2)),
        previous_action=torch.cat([choice(A, 1, B), action]) * seen,
        previous_extrinsic=torch.cat([zero, extrinsic]) * seen,
        previous_intrinsic=torch.cat([zero, intrinsic]) * seen,
        action=action * mask,
        action_prob=torch.where(mask, 0.2 + 0.8 * torch.rand(T, B, generator=rng), 1.0),
        extrinsic=extrinsic * mask,
        intrinsic=intrinsic * mask,
        discount=discount,
        mask=mask,
        arm=torch.arange(B) % config.family.arms,
        start=torch.tensor(starts or [4] * B),
        state=0.1 * normal(networks.num_cores, 2, B, networks.state_size),
        key=torch.arange(B),
        probability=torch.linspace(0.1, 0.4, B, dtype=torch.float64),
    )


class Notes:
    """A journal that keeps everything in memory."""

    def __init__(self) -> None:
        self.scalars: list[dict[str, float]] = []
        self.episodes: list[Episode] = []

    def add(self, scalars: dict[str, float]) -> None:
        self.scalars.append(scalars)

    def add_episode(self, episode: Episode) -> None:
        self.episodes.append(episode)

    def is_due(self, frames: int) -> bool:
        return False


class Sitting:
    """A session that is never interrupted, or that stops after some steps."""

    def __init__(self, max_ticks: int | None = None) -> None:
        self.num_ticks = 0
        self._max_ticks = max_ticks

    @property
    def is_stopping(self) -> bool:
        return self._max_ticks is not None and self.num_ticks >= self._max_ticks

    def tick(self, parts: object) -> None:
        self.num_ticks += 1


def same_tree(first: Any, second: Any) -> bool:
    """Whether two nested containers of tensors and numbers are equal, bit for bit."""
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same_tree(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same_tree, first, second))
    return bool(first == second)
