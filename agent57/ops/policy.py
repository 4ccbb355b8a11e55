"""From the values of the separate networks to the probabilities of actions."""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from agent57.ops.squash import at_least_float32, squash, unsquash


def mix_values(
    value: Float[Tensor, "V *#rows A"],
    weight: Float[Tensor, "V *#rows"],
    kind: Literal["identity", "h"],
    eps: float,
) -> Float[Tensor, "*#rows A"]:
    """The mixture of the networks' values, on which a policy acts (the paper, section 3.1).

        identity:  Q = sum_v w_v Q_v
        h:         Q = h(sum_v w_v h^-1(Q_v))

    The weights are 1 for the extrinsic and beta_j for the intrinsic network.
    """
    weight = weight[..., None]
    if kind == "identity":
        return (weight * at_least_float32(value)).sum(0)
    return squash((weight * unsquash(value, eps)).sum(0), eps)


def epsilon_greedy(
    value: Float[Tensor, "*rows A"], epsilon: float | Float[Tensor, "*#rows"]
) -> Float[Tensor, "*rows A"]:
    """Probabilities: epsilon / A for each action, plus 1 - epsilon for the (first) best one."""
    value = at_least_float32(value)
    num_actions = value.shape[-1]
    if isinstance(epsilon, Tensor):
        epsilon = epsilon[..., None]
    greedy = torch.nn.functional.one_hot(value.argmax(-1), num_actions).to(value.dtype)
    return epsilon / num_actions + (1 - epsilon) * greedy


def choose_actions(
    value: Float[np.ndarray, "E A"],
    epsilon: Float[np.ndarray, "E"],
    uniform: Float[np.ndarray, "E 2"],
) -> tuple[Int64[np.ndarray, "E"], Float[np.ndarray, "E"]]:
    """One epsilon-greedy action per lane, and the probability mu it had of being chosen.

        mu(a) = epsilon / A + (1 - epsilon) [a is greedy]

    `uniform` holds two draws from [0, 1) per lane: whether to act at random, and how.
    paper: mu is epsilon / A whenever the random branch was taken; we: the probability of the
    action itself, which the random branch may share with the greedy one.
    """
    num_actions = value.shape[1]
    greedy = value.argmax(1)
    at_random = np.minimum(uniform[:, 1] * num_actions, num_actions - 1).astype(np.int64)
    action = np.where(uniform[:, 0] < epsilon, at_random, greedy)
    action_prob = epsilon / num_actions + (1 - epsilon) * (action == greedy)
    return action, action_prob.astype(np.float32)


def sample_actions(
    policy: Float[np.ndarray, "E A"],
    epsilon: Float[np.ndarray, "E"],
    uniform: Float[np.ndarray, "E 2"],
) -> tuple[Int64[np.ndarray, "E"], Float[np.ndarray, "E"]]:
    """One action per lane from a policy, and the probability mu it had of being chosen.

        mu(a) = epsilon / A + (1 - epsilon) pi(a)

    `uniform` holds two draws from [0, 1) per lane: whether to act at random, and how.
    """
    num_actions = policy.shape[1]
    at_random = np.minimum(uniform[:, 1] * num_actions, num_actions - 1).astype(np.int64)
    reached = uniform[:, 1:] >= np.cumsum(policy, axis=1)
    drawn = np.minimum(reached.sum(1), num_actions - 1)
    action = np.where(uniform[:, 0] < epsilon, at_random, drawn)
    chosen = np.take_along_axis(policy, action[:, None], axis=1)[:, 0]
    return action, (epsilon / num_actions + (1 - epsilon) * chosen).astype(np.float32)
