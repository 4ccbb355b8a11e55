"""The recurrent duelling Q-network; Agent57 holds one per reward (paper, section 3.1; R2D2).

Inputs are the paper's: observation, previous action, previous extrinsic and intrinsic reward,
the arm j, and the recurrent state.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from agent57.config import Config, NetworkConfig
from agent57.nets.initial import draw_orthogonal, draw_scaled
from agent57.nets.side_by_side import in_turn
from agent57.nets.torso import Trunk, layer
from agent57.ops.squash import squash


class ValueNet(nn.Module):
    """Q(x, a, j; theta) of one reward."""

    def __init__(
        self, config: NetworkConfig, trunk: Trunk, num_inputs: int, num_actions: int
    ) -> None:
        """`num_inputs` enter the core beside the features of the observation."""
        super().__init__()
        self.trunk = trunk
        self.num_features, size = config.feature_size, config.state_size
        is_normalised = config.normalise == "layer"
        dense = nn.Linear(trunk.num_features, self.num_features)
        self.dense = nn.Sequential(*layer(dense, nn.ReLU(inplace=True), is_normalised))
        width = self.num_features + num_inputs
        self.core = (
            nn.LSTM(width, size)
            if config.core == "lstm"
            else nn.Sequential(nn.Linear(width, size), nn.ReLU(inplace=True))
        )
        if isinstance(self.core, nn.LSTM):
            _, _, bias, _ = self.core.all_weights[0]
            nn.init.constant_(bias[size : 2 * size], config.forget_bias)  # a new network remembers
        self.advantage, self.value = (
            nn.Sequential(
                *layer(
                    nn.Linear(size, config.head_size),
                    nn.LeakyReLU(config.head_slope, inplace=True),
                    is_normalised,
                ),
                nn.Linear(config.head_size, num_outputs),
            )
            for num_outputs in (num_actions, 1)
        )

    def amplify_view(self, gain: float) -> None:
        """Multiply the core's input weights for visual features by `gain`."""
        of_input = next(self.core.parameters())
        with torch.no_grad():
            of_input[:, : self.num_features].mul_(gain)

    def forward(
        self,
        prepared: Float[Tensor, "T B *shape"],
        inputs: Float[Tensor, "T B I"],
        state: Float[Tensor, "2 B H"],
    ) -> tuple[Float[Tensor, "T B A"], Float[Tensor, "2 B H"]]:
        """Values of all actions at each row, and the state after the last row."""
        features = self.dense(self.trunk(prepared.flatten(0, 1)))
        features = features.unflatten(0, prepared.shape[:2])
        core_input = torch.cat([features, inputs], dim=-1)
        if not isinstance(self.core, nn.LSTM):
            hidden = self.core(core_input)
        elif len(core_input) == 1:  # acting: nn.LSTM would repack its weights for a single row
            h, c = torch.lstm_cell(core_input[0], list(state), *self.core.all_weights[0])
            hidden, state = h[None], torch.stack([h, c])
        else:
            hidden, (h, c) = self.core(core_input, (state[:1].contiguous(), state[1:].contiguous()))
            state = torch.cat([h, c])
        advantage = self.advantage(hidden)
        q = self.value(hidden) + advantage - advantage.mean(-1, keepdim=True)
        return q, state


class ValueNets(nn.Module):
    """The V value networks of an agent: extrinsic and intrinsic, or one joint network."""

    def __init__(self, config: Config, make_trunk: Callable[..., Trunk], num_actions: int) -> None:
        super().__init__()
        network = config.network
        self.num_actions = num_actions
        self.num_arms = config.family.arms
        self.state_size = network.state_size if network.core == "lstm" else 0
        # The epsilon of h for the previous rewards; None leaves them raw.
        self.reward_epsilon = (
            config.learner.squash_epsilon if network.reward_input == "squash" else None
        )
        num_inputs = num_actions + self.num_arms + 2
        is_normalised = network.normalise == "layer"
        self.nets = nn.ModuleList(
            ValueNet(network, make_trunk(is_normalised=is_normalised), num_inputs, num_actions)
            for _ in range(2 if network.values == "separate" else 1)
        )
        if network.normalise == "layer":
            draw_orthogonal(self)
        elif network.initial_weights == "scaled":
            draw_scaled(self)
        for net in self.nets:
            cast(ValueNet, net).amplify_view(network.view_gain)

    def forward(
        self,
        prepared: Float[Tensor, "T B *shape"],
        previous_action: Int[Tensor, "T B"],
        previous_extrinsic: Float[Tensor, "T B"],
        previous_intrinsic: Float[Tensor, "T B"],
        arm: Int[Tensor, "B"],
        state: Float[Tensor, "V 2 B H"],
        run: Callable[[Any], Any] = in_turn,
    ) -> tuple[Float[Tensor, "V T B A"], Float[Tensor, "V 2 B H"]]:
        """Values of all networks at each row, and their states after the last row.

        `run` may evaluate the networks side by side.
        """
        rewards = torch.stack([previous_extrinsic, previous_intrinsic], dim=-1)
        if self.reward_epsilon is not None:
            rewards = squash(rewards, self.reward_epsilon)
        inputs = torch.cat(
            [
                F.one_hot(previous_action, self.num_actions).float(),
                rewards,
                F.one_hot(arm, self.num_arms).float().expand(len(prepared), -1, -1),
            ],
            dim=-1,
        )
        outputs = run([partial(net, prepared, inputs, state[v]) for v, net in enumerate(self.nets)])
        return torch.stack([q for q, _ in outputs]), torch.stack([s for _, s in outputs])
