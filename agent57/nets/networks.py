"""All networks of one agent, built for a task."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from agent57.config import NetworkConfig
from agent57.nets.embedding import Embedding
from agent57.nets.initial import draw_scaled
from agent57.nets.rnd import Rnd
from agent57.nets.torso import Kind, Trunk, num_planes, prepare
from agent57.nets.value import ValueNet, ValueNets


class Networks(nn.Module):
    """Value networks and, where an arm is curious, the two novelty networks."""

    def __init__(
        self,
        config: NetworkConfig,
        kind: Kind,
        observation_shape: tuple[int, ...],
        max_value: int,
        num_actions: int,
        num_arms: int,
        is_curious: bool,
        squash_epsilon: float,
    ) -> None:
        """`squash_epsilon`: of h, where the previous rewards are squashed."""
        super().__init__()
        self.kind = kind
        self.max_value = max_value
        self.state_size = config.state_size if config.core == "lstm" else 0
        planes = num_planes(kind, observation_shape, max_value)
        make_trunk = partial(
            Trunk,
            kind,
            (planes, *observation_shape[1:]),
            config.channels,
            config.grid_channels,
            config.feature_size,
        )

        def make_value(num_inputs: int) -> ValueNet:
            return ValueNet(
                make_trunk(),
                num_inputs,
                num_actions,
                config.feature_size,
                config.state_size,
                config.head_size,
                config.core,
                config.forget_bias,
                config.head_slope,
            )

        self.num_values = 2 if config.values == "separate" else 1
        reward_epsilon = squash_epsilon if config.reward_input == "squash" else None
        self.value = ValueNets(make_value, self.num_values, num_actions, num_arms, reward_epsilon)
        if config.initial_weights == "scaled":
            draw_scaled(self.value)
        self.value.amplify_view(config.view_gain)
        self.embedding = (
            Embedding(make_trunk(), config.embedding_size, config.inverse_head_size, num_actions)
            if is_curious
            else None
        )
        self.rnd = Rnd(make_trunk, config.rnd_size) if is_curious else None
        self.td_squares: Tensor  # what `ops.td_scale.follow` keeps of the errors of each arm
        self.register_buffer("td_squares", torch.zeros(self.num_values + 1, num_arms))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # twice as fast in the gradients
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:  # noqa: ANN401
        """Of weights from before, TD errors are unknown, or their squares are means already."""
        name = f"{prefix}td_squares"
        squares = state_dict.setdefault(name, torch.zeros_like(self.td_squares))
        if len(squares) == self.num_values:
            state_dict[name] = torch.cat([squares, torch.ones_like(squares[:1])])
        super()._load_from_state_dict(state_dict, prefix, *args)

    def prepare(self, observation: Tensor) -> Tensor:
        """Observations as all networks take them."""
        return prepare(observation, self.kind, self.max_value)
