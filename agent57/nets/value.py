"""The recurrent duelling Q-networks (paper, section 3.1; R2D2).

Agent57 has one network per reward. `shared` has one torso and one core under heads of Q^e and Q^i
(MEME), and `joint` has a single Q of the mixed reward (NGU). Inputs are the paper's: observation,
previous action, previous extrinsic and intrinsic reward, the arm j, and the recurrent state. The
arm enters the core, or the heads alone: then one unroll gives the values of every arm.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.amp import is_autocast_available

from agent57.config import Config, NetworkConfig
from agent57.nets.initial import draw_orthogonal, draw_scaled
from agent57.nets.torso import Trunk, layer
from agent57.ops.squash import squash
from agent57.threads import in_turn


class ValueNet(nn.Module):
    """Q(x, a, j; theta): a torso, a core, and a duelling head for each of K values."""

    def __init__(
        self,
        config: NetworkConfig,
        trunk: Trunk,
        num_inputs: int,
        num_actions: int,
        num_arms: int,
        num_values: int,
    ) -> None:
        """`num_inputs` enter the core with the features; `num_arms` enter the heads."""
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
            _, _, bias, _ = self.core.all_weights[0]  # of the forget gate: a new network remembers
            nn.init.constant_(bias[size : 2 * size], config.forget_bias)

        self._has_skip = config.skip
        self.num_hidden = size + (width if config.skip else 0)

        def make_head(num_outputs: int) -> nn.Sequential:
            hidden = nn.Linear(self.num_hidden + num_arms, config.head_size)
            unit = nn.LeakyReLU(config.head_slope, inplace=True)
            return nn.Sequential(
                *layer(hidden, unit, is_normalised), nn.Linear(config.head_size, num_outputs)
            )

        self.advantage, self.value = make_head(num_actions), make_head(1)
        self._heads = [(self.advantage, self.value)]
        if num_values == 2:
            self.intrinsic_advantage, self.intrinsic_value = make_head(num_actions), make_head(1)
            self._heads.append((self.intrinsic_advantage, self.intrinsic_value))

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
        arm: Int[Tensor, "B N"] | None = None,
    ) -> tuple[Float[Tensor, "K T *rows A"], Float[Tensor, "2 B H"]]:
        """Values of all actions at each row, and the state after the last row."""
        value, _, state = self.unroll(prepared, inputs, state, arm)
        return value, state

    def unroll(
        self,
        prepared: Float[Tensor, "T B *shape"],
        inputs: Float[Tensor, "T B I"],
        state: Float[Tensor, "2 B H"],
        arm: Int[Tensor, "B N"] | None,
    ) -> tuple[Float[Tensor, "K T *rows A"], Float[Tensor, "T B U"], Float[Tensor, "2 B H"]]:
        """Values of all actions, the inputs of the heads, and the state after the last row.

        `arm` are the arms that enter the heads of each window, for rows [B, N]; None: rows [B].
        """
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
        if self._has_skip:
            hidden = torch.cat([hidden, core_input], dim=-1)
        with _exact(hidden):
            hidden = hidden.float()
            value = torch.stack([self._duel(*head, hidden, arm) for head in self._heads])
        return value, hidden, state

    def _duel(
        self,
        advantage: nn.Sequential,
        value: nn.Sequential,
        hidden: Float[Tensor, "T B H"],
        arm: Int[Tensor, "B N"] | None,
    ) -> Float[Tensor, "T *rows A"]:
        a = _with_arm(advantage, hidden, arm)
        return _with_arm(value, hidden, arm) + a - a.mean(-1, keepdim=True)


def _exact(x: Tensor) -> AbstractContextManager[Any]:
    """Compute in float32 for a while, also in a learner of bfloat16.

    In bfloat16 the values of two actions often round to the same number: a value of 16 has steps
    of an eighth, and the best action leads by less.
    """
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if is_autocast_available(kind) else nullcontext()


def _with_arm(
    head: nn.Sequential, hidden: Float[Tensor, "T B H"], arm: Int[Tensor, "B N"] | None
) -> Float[Tensor, "T *rows O"]:
    """The head's answer to the core's output and the one-hot arm.

    The part of its first layer that sees the core is computed once for all arms.
    """
    if arm is None:
        return head(hidden)
    first = cast(nn.Linear, head[0])
    size = hidden.shape[-1]
    of_core = F.linear(hidden, first.weight[:, :size], first.bias)  # [T, B, O]
    of_arm = first.weight[:, size:].T[arm]  # [B, N, O]
    return head[1:](of_core[:, :, None] + of_arm)


class ValueNets(nn.Module):
    """The value networks of an agent: V values on one or two cores."""

    def __init__(self, config: Config, make_trunk: Callable[..., Trunk], num_actions: int) -> None:
        super().__init__()
        network = config.network
        self.num_actions = num_actions
        self.num_arms = config.family.arms
        self.state_size = network.state_size if network.core == "lstm" else 0
        self.num_values = 1 if network.values == "joint" else 2
        # The epsilon of h for the previous rewards; None leaves them raw.
        self.reward_epsilon = (
            config.learner.squash_epsilon if network.reward_input == "squash" else None
        )
        self.arm_enters_heads = network.arm_input == "head"
        arms_in_core, arms_in_head = (
            (0, self.num_arms) if self.arm_enters_heads else (self.num_arms, 0)
        )
        num_nets = 2 if network.values == "separate" else 1
        is_normalised = network.normalise == "layer"
        self.nets = nn.ModuleList(
            ValueNet(
                network,
                make_trunk(is_normalised=is_normalised),
                num_actions + arms_in_core + 2,
                num_actions,
                arms_in_head,
                self.num_values // num_nets,
            )
            for _ in range(num_nets)
        )
        num_hidden = sum(cast(ValueNet, net).num_hidden for net in self.nets)
        # The policy head sees the outputs of all cores (MEME's policy distillation).
        self.policy = (
            nn.Sequential(
                nn.Linear(num_hidden + arms_in_head, network.head_size),
                nn.ReLU(inplace=True),
                nn.Linear(network.head_size, num_actions),
            )
            if config.learner.policy == "distilled"
            else None
        )
        if is_normalised:
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
        arm: Int[Tensor, "B"] | Int[Tensor, "B N"],
        state: Float[Tensor, "C 2 B H"],
        run: Callable[[Any], Any] = in_turn,
    ) -> tuple[Float[Tensor, "O T *rows A"], Float[Tensor, "C 2 B H"]]:
        """Outputs at each row, and the states of the C cores after the last row.

        The O outputs are the V values, and the logits of the policy if it is distilled. Rows are
        [B], or [B, N] for N arms of each window, where the arm enters the heads. `run` may evaluate
        the networks side by side.
        """
        rewards = torch.stack([previous_extrinsic, previous_intrinsic], dim=-1)
        if self.reward_epsilon is not None:
            rewards = squash(rewards, self.reward_epsilon)
        inputs = [F.one_hot(previous_action, self.num_actions).float(), rewards]
        for_heads = None
        if self.arm_enters_heads:
            for_heads = arm if arm.dim() == 2 else arm[:, None]
        else:
            inputs.append(F.one_hot(arm, self.num_arms).float().expand(len(prepared), -1, -1))
        core_input = torch.cat(inputs, dim=-1)
        outputs = run(
            [
                partial(cast(ValueNet, net).unroll, prepared, core_input, state[core], for_heads)
                for core, net in enumerate(self.nets)
            ]
        )
        values, hidden, states = zip(*outputs, strict=True)
        if self.policy is not None:
            with _exact(hidden[0]):
                logits = _with_arm(self.policy, torch.cat(hidden, dim=-1), for_heads)
            values = (*values, logits[None])
        found = torch.cat(values)
        if for_heads is not None and arm.dim() == 1:
            found = found.squeeze(3)
        return found, torch.stack(states)
