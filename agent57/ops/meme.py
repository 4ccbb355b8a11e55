"""The formulas of MEME's choices (Kapturowski et al., 2022), all of them off in Agent57.

- soft Watkins Q(lambda): traces that survive actions that are nearly as good as the best
- trust region: rows stop counting where the online value has left the target network's
- policy distillation: a policy that imitates the values, and acts
- cross-mixture: every window also teaches arms that did not play it

In cross-mixture training the arm that played has the share eta of the weight; all arms share the
rest evenly. Returns are corrected for the policy that played, and r^i does not depend on the arm,
so any arm may learn. Where arms enter the heads, one unroll serves every arm of a window. Where
they enter the core, an arm is drawn for each window, so that an update costs no more.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from agent57.config import Config
from agent57.ops.retrace import played_values
from agent57.types import WINDOW_AXIS, Batch, Windows

BITS = 53  # in the fraction of a float64


def soft_watkins_traces(
    mixture: Float[Tensor, "*rows A"],
    policy: Float[Tensor, "*rows A"],
    action: Int[Tensor, "*rows"],
    trace_decay: float,
    tolerance: float,
    unit: Float[Tensor, "*#rows #A"] | None = None,
) -> Float[Tensor, "*rows"]:
    """The share of each error that earlier steps learn (MEME).

        c = lambda E_{a~pi} [ Q(x, a_played) >= Q(x, a) - kappa |Q(x, a)| ]

    `mixture` is the value acted on, `tolerance` is kappa. With kappa = 0 and a greedy policy the
    trace is Watkins': lambda after a greedy action, else 0. `unit` replaces |Q(x, a)|, for example
    by the size of TD errors: then actions count as equally good while the values cannot tell them
    apart.
    """
    least = mixture - tolerance * (mixture.abs() if unit is None else unit)
    is_as_good = played_values(action, mixture)[..., None] >= least
    return trace_decay * (policy * is_as_good).sum(-1)


def trust_region(
    ahead: Float[Tensor, "V T B"],
    td_error: Float[Tensor, "V T B"],
    scale: Float[Tensor, "V #T B"],
    alpha: float,
) -> Bool[Tensor, "V T B"]:
    """Rows whose loss counts: rows within the trust region, or moving back to it (MEME).

    `ahead` is Q(theta) - Q(theta_T), how far the online value is from the target network's. A row
    is dropped if it is further than alpha sigma_j and learning would take it further still:

        |ahead| > alpha sigma_j  and  sign(ahead) != sign(Q(theta) - G)
    """
    is_outside = ahead.abs() > alpha * scale
    is_leaving = ahead.sign() != (-td_error).sign()
    return ~(is_outside & is_leaving)


def distillation_loss(
    logits: Float[Tensor, "*rows A"],
    target_logits: Float[Tensor, "*rows A"],
    wanted: Float[Tensor, "*rows A"],
    max_kl: float,
) -> Float[Tensor, "*rows"]:
    """Cross-entropy of the policy with the one it imitates, epsilon-greedy in the values (MEME).

    Rows are 0 where the policy has moved from the target network's by KL(pi_T || pi) > `max_kl`.
    The gradient flows through `logits` alone.
    """
    log_policy = logits.log_softmax(-1)
    with torch.no_grad():
        log_target = target_logits.log_softmax(-1)
        kl = (log_target.exp() * (log_target - log_policy)).sum(-1)
    return torch.where(kl <= max_kl, -(wanted * log_policy).sum(-1), 0.0)


def hashed_uniforms(key: Int[Tensor, "B"], salt: int) -> Float64[Tensor, "B"]:
    """Numbers in [0, 1) that depend only on key and salt (splitmix64), not on state or order."""
    x = key + _signed(salt * 0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ _shifted(x, shift)) * _signed(factor)
    x = x ^ _shifted(x, 31)
    return _shifted(x, 64 - BITS).double() / 2**BITS


def _signed(number: int) -> int:
    """The 64 bits of a number as an int64."""
    return (number + 2**63) % 2**64 - 2**63


def _shifted(x: Int[Tensor, "B"], by: int) -> Int[Tensor, "B"]:
    """Bits moved to the right, zeros from the left."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def cross_arms(
    arm: Int[Tensor, "B"], key: Int[Tensor, "B"], salt: int, eta: float, num_arms: int
) -> Int[Tensor, "B"]:
    """The arms to learn windows for: with probability eta the arm that played, otherwise any."""
    is_crossed = hashed_uniforms(key, 2 * salt) >= eta
    drawn = (hashed_uniforms(key, 2 * salt + 1) * num_arms).long()
    return torch.where(is_crossed, drawn, arm)


def crossed(batch: Batch, salt: int, config: Config) -> tuple[Batch, Windows]:
    """The batch, perhaps with arms drawn anew, and the N windows that are learned.

    N is B, or B x J where each window is learned for every arm.
    """
    eta, num_arms = config.learner.cross_mixture, config.family.arms
    if config.network.arm_input == "core":
        batch = replace(batch, arm=cross_arms(batch.arm, batch.key, salt, eta, num_arms))
        return batch, batch
    repeated = {
        name: getattr(batch, name).repeat_interleave(num_arms, dim=WINDOW_AXIS.get(name, 1))
        for name in Windows.__dataclass_fields__
    }
    every_arm = torch.arange(num_arms, device=batch.arm.device).repeat(len(batch.arm))
    return batch, Windows(**repeated | {"arm": every_arm})


def learned_weights(
    weight: Float[Tensor, "B"], batch: Batch, windows: Windows, config: Config
) -> Float[Tensor, "N"]:
    """The weight of each learned window: its importance weight times the share of its arm."""
    eta, num_arms = config.learner.cross_mixture, config.family.arms
    played = batch.arm.repeat_interleave(num_arms) == windows.arm
    share = eta * played + (1 - eta) / num_arms
    return num_arms * share * weight.repeat_interleave(num_arms)
