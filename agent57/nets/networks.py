"""All networks of one agent, built for a task: the value networks and the two of novelty (NGU)."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from agent57.config import Config, NetworkConfig
from agent57.nets.standard import Standard
from agent57.nets.torso import Trunk, num_planes, prepare, prepare_fused
from agent57.nets.value import ValueNets
from agent57.seeds import Role, sequence
from agent57.threads import one_thread
from agent57.types import EnvSpec


def make_networks(config: Config, spec: EnvSpec) -> "Networks":
    """The agent's networks for a task, with weights drawn from the run's seed."""
    seed = sequence(config.run.seed, Role.NETWORKS).generate_state(1)[0]
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(int(seed))
        return Networks(config, spec)


class Networks(nn.Module):
    """Value networks and, where an arm is curious, the two novelty networks."""

    def __init__(self, config: Config, spec: EnvSpec) -> None:
        super().__init__()
        self._spec = spec
        network = config.network
        is_curious = config.family.is_curious
        shape = spec.image_shape or spec.observation_shape
        planes = num_planes(spec.kind, shape, spec.max_value)
        make_trunk = partial(Trunk, network, spec.kind, (planes, *shape[1:]), spec.num_beside)
        is_standard = spec.kind == "vector" and network.vector_input == "standard"
        self.standard = Standard(spec.observation_shape[0]) if is_standard else None
        self.value = ValueNets(config, make_trunk, spec.num_actions)
        self._average_rate = network.average_rate
        self.average = (
            copy.deepcopy(self.value).requires_grad_(False) if network.average_rate else None
        )
        self.embedding = Embedding(network, make_trunk(), spec.num_actions) if is_curious else None
        self.rnd = Rnd(network, make_trunk) if is_curious else None
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # twice as fast in the gradients
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def num_values(self) -> int:
        """Number V of values: 2 for Q^e and Q^i, 1 for a joint one."""
        return self.value.num_values

    @property
    def num_cores(self) -> int:
        """Number C of cores, each with a recurrent state: one for each value, or one shared."""
        return len(self.value.nets)

    @property
    def state_size(self) -> int:
        """Units H of each recurrent state; 0 without a recurrent core."""
        return self.value.state_size

    @torch.no_grad()
    def follow_average(self) -> None:
        """Move the averaged value networks towards the online ones.

        The greedy policy changes with every update; the policy of the average is steadier.
        """
        if self.average is not None:
            averages, online = self.average.parameters(), self.value.parameters()
            for average, weight in zip(averages, online, strict=True):
                average.lerp_(weight, self._average_rate)

    @property
    def evaluated(self) -> ValueNets:
        """The value networks that evaluations play: the average, if there is one."""
        return self.value if self.average is None else self.average

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:  # noqa: ANN401
        """Pass over `td_squares`, which is for actors and once belonged to the networks."""
        state_dict.pop(f"{prefix}td_squares", None)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def prepare(self, observation: Tensor) -> Tensor:
        """Observations as all networks take them."""
        spec = self._spec
        if spec.image_shape:
            return prepare_fused(observation, spec.image_shape, spec.kind, spec.max_value)
        prepared = prepare(observation, spec.kind, spec.max_value)
        return prepared if self.standard is None else self.standard(prepared)


class Embedding(nn.Module):
    """The controllable-state embedding f(x) and the inverse dynamics that train it (NGU).

    The episodic memory is made of f(x). The classifier p(a | f(x), f(x')) is the inverse dynamics.
    """

    def __init__(self, config: NetworkConfig, trunk: Trunk, num_actions: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.project = nn.Linear(trunk.num_features, config.embedding_size)
        self.inverse = nn.Sequential(
            nn.Linear(2 * config.embedding_size, config.inverse_head_size),
            nn.ReLU(),
            nn.Linear(config.inverse_head_size, num_actions),
        )

    def forward(self, prepared: Float[Tensor, "N *shape"]) -> Float[Tensor, "N D"]:
        """f(x) of N observations."""
        return self.project(self.trunk(prepared))

    def action_logits(
        self, before: Float[Tensor, "*rows D"], after: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows A"]:
        """Return unnormalised log-probabilities of the actions between states.

        The states are given by their embeddings, because the state after a step is also the state
        before the next one.
        """
        return self.inverse(torch.cat([before, after], dim=-1))


class Rnd(nn.Module):
    """Random network distillation (NGU): g is frozen and random, g' learns to imitate it.

    The error of g' is large where states are unlike anything seen in the whole run.
    """

    def __init__(self, config: NetworkConfig, make_trunk: Callable[[], Trunk]) -> None:
        super().__init__()
        self.target = self._network(make_trunk(), config.rnd_size).requires_grad_(False)
        self.predictor = self._network(make_trunk(), config.rnd_size)

    @staticmethod
    def _network(trunk: Trunk, size: int) -> nn.Sequential:
        return nn.Sequential(trunk, nn.Linear(trunk.num_features, size))

    def forward(self, prepared: Float[Tensor, "N *shape"]) -> Float[Tensor, "N"]:
        """err(x) = |g'(x) - g(x)|^2 of N observations."""
        return (self.predictor(prepared) - self.target(prepared)).square().sum(-1)
