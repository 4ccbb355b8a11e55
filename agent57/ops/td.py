"""The TD errors of the value networks: the one place that says what each of them learns.

With separate networks Q^e learns from the extrinsic and Q^i from the intrinsic reward, each from
its own values, but both under the policy of their mixture Q^e + beta_j Q^i and with the discount
gamma_j of the arm that played. A joint network learns from r^e + beta_j r^i.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from agent57.config import LearnerConfig
from agent57.ops.policy import epsilon_greedy, mix_values
from agent57.ops.retrace import n_step_targets, played_values, retrace_targets
from agent57.ops.squash import at_least_float32, squash, unsquash


def value_rewards(
    extrinsic: Float[Tensor, "T B"],
    intrinsic: Float[Tensor, "T B"],
    beta: Float[Tensor, "B"],
    kind: Literal["separate", "joint"],
) -> Float[Tensor, "V T B"]:
    """The reward each network learns from: r^e and r^i, or r^e + beta_j r^i."""
    if kind == "separate":
        return torch.stack([extrinsic, intrinsic])
    return (extrinsic + beta * intrinsic)[None]


def value_weights(
    beta: Float[Tensor, "B"], kind: Literal["separate", "joint"]
) -> Float[Tensor, "V B"]:
    """What each network counts in the mixture: 1 and beta_j, or just 1."""
    if kind == "separate":
        return torch.stack([torch.ones_like(beta), beta])
    return torch.ones_like(beta)[None]


def td_errors(
    online: Float[Tensor, "V rows B A"],
    target: Float[Tensor, "V rows B A"],
    *,
    action: Int[Tensor, "T B"],
    action_prob: Float[Tensor, "T B"],
    extrinsic: Float[Tensor, "T B"],
    intrinsic: Float[Tensor, "T B"],
    discount: Float[Tensor, "T B"],
    mask: Bool[Tensor, "T B"],
    beta: Float[Tensor, "B"],
    gamma: Float[Tensor, "B"],
    loss: LearnerConfig,
    values: Literal["separate", "joint"],
) -> Float[Tensor, "V T B"]:
    """The TD errors h(G_v[t]) - Q_v[t, a[t]] of each network v, and 0 in padding.

    `online` and `target` are the outputs of the networks, T+1 rows, in the space of h. The returns
    G_v are of the target networks' h^-1(Q_v) and of the network's own reward (the paper, appendix
    C): Retrace under the epsilon-greedy policy of the online mixture, or n-step double Q-learning
    with the online mixture's best action. The gradient flows through `online` alone.
    """
    online = at_least_float32(online)
    is_squashed = loss.transform == "h"
    value = unsquash(target, loss.squash_epsilon) if is_squashed else at_least_float32(target)
    weight = value_weights(beta, values)[:, None]
    mixture = mix_values(online.detach(), weight, loss.mixture, loss.squash_epsilon)
    reward = value_rewards(extrinsic, intrinsic, beta, values)
    discount = gamma * discount

    if loss.loss == "retrace":
        policy = epsilon_greedy(mixture, loss.target_epsilon)
        returns = [
            retrace_targets(r, discount, mask, v, policy, action, action_prob, loss.trace_decay)
            for r, v in zip(reward, value, strict=True)
        ]
    else:
        best = mixture.argmax(-1)
        returns = [
            n_step_targets(r, discount, mask, played_values(best, v), loss.n_step)
            for r, v in zip(reward, value, strict=True)
        ]

    learned = torch.stack(returns)
    if is_squashed:
        learned = squash(learned, loss.squash_epsilon)
    played = played_values(action.expand(len(online), -1, -1), online[:, :-1])
    return (learned - played).masked_fill(~mask, 0.0)


def mixed_td_error(
    td_error: Float[Tensor, "V T B"], weight: Float[Tensor, "V B"]
) -> Float[Tensor, "T B"]:
    """sum_v w_v delta_v, by whose size a window is prioritised: the identity mixture's error."""
    return (weight[:, None] * td_error).sum(0)
