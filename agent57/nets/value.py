"""The recurrent duelling Q-network; Agent57 holds one per reward (paper, section 3.1; R2D2).

Inputs are the paper's: observation, previous action, previous extrinsic and intrinsic reward,
the arm j, and the recurrent state.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from agent57.nets.side_by_side import in_turn
from agent57.nets.torso import Trunk
from agent57.ops.squash import squash


class ValueNet(nn.Module):
    """Q(x, a, j; theta) of one reward."""

    def __init__(
        self,
        trunk: Trunk,
        num_inputs: int,
        num_actions: int,
        features: int,
        state: int,
        head: int,
        core: Literal["lstm", "none"],
        forget_bias: float,
        head_slope: float,
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.num_features = features
        self.dense = nn.Sequential(nn.Linear(trunk.num_features, features), nn.ReLU(inplace=True))
        self.core = (
            nn.LSTM(features + num_inputs, state)
            if core == "lstm"
            else nn.Sequential(nn.Linear(features + num_inputs, state), nn.ReLU(inplace=True))
        )
        if isinstance(self.core, nn.LSTM):
            _, _, bias, _ = self.core.all_weights[0]
            nn.init.constant_(bias[state : 2 * state], forget_bias)  # a new network remembers
        self.advantage, self.value = (
            nn.Sequential(
                nn.Linear(state, head),
                nn.LeakyReLU(head_slope, inplace=True),
                nn.Linear(head, num_outputs),
            )
            for num_outputs in (num_actions, 1)
        )

    def amplify_view(self, gain: float) -> None:
        """Let what is seen count `gain` times as much in the core as it does."""
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

    def __init__(
        self,
        make: Callable[[int], ValueNet],
        num_nets: int,
        num_actions: int,
        num_arms: int,
        reward_epsilon: float | None,
    ) -> None:
        """`reward_epsilon`: of h applied to the previous rewards; None leaves them raw."""
        super().__init__()
        self.num_actions = num_actions
        self.num_arms = num_arms
        self.reward_epsilon = reward_epsilon
        self.nets = nn.ModuleList(make(num_actions + num_arms + 2) for _ in range(num_nets))

    def amplify_view(self, gain: float) -> None:
        """Let what is seen count `gain` times as much in the cores as it does."""
        for net in self.nets:
            cast(ValueNet, net).amplify_view(gain)

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
