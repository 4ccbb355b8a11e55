"""Off-policy return targets of the played actions, time-major.

Row t is `observation[t] --action[t]--> reward[t], discount[t], observation[t+1]`, so values have
one row more than rewards. `discount` is gamma_j, or 0 where the episode terminated. Rows whose
`mask` is False lie beyond the end of the episode: they change nothing, and the last row before
them bootstraps from the observation it led to. No gradient flows through any target.

Columns are B windows, or [V, B] for several values of each window at once.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Rows(NamedTuple):
    """The rewards, discounts and mask of the rows that returns are computed for."""

    reward: Float[Tensor, "T *#columns"]
    discount: Float[Tensor, "T *#columns"]
    mask: Bool[Tensor, "T *#columns"]


def linear_recurrence(
    a: Float[Tensor, "T *#columns"], b: Float[Tensor, "T *#columns"]
) -> Float[Tensor, "T *#columns"]:
    """The solution of x[t] = a[t] + b[t] x[t+1] with x[T] = 0.

    Solved by doubling. If x[t] = a[t] + b[t] x[t+s] for all t, then substituting x[t+s] gives the
    same form with 2s. So all rows take log2(T) steps.
    """
    span = 1
    while span < len(a):
        a = torch.cat([a[:-span] + b[:-span] * a[span:], a[-span:]])
        b = torch.cat([b[:-span] * b[span:], b[-span:]])
        span *= 2
    return a


def played_values(
    action: Int[Tensor, "*rows"], value: Float[Tensor, "*rows A"]
) -> Float[Tensor, "*rows"]:
    """The value of each row's action."""
    return value.gather(-1, action[..., None]).squeeze(-1)


def retrace_traces(
    policy: Float[Tensor, "*rows A"],
    action: Int[Tensor, "*rows"],
    action_prob: Float[Tensor, "*rows"],
    trace_decay: float,
) -> Float[Tensor, "*rows"]:
    """The share of each error that earlier steps learn: c = lambda min(1, pi(a) / mu(a))."""
    return trace_decay * (played_values(action, policy) / action_prob).clamp(max=1.0)


def retrace_targets(
    rows: Rows,
    value: Float[Tensor, "rows *#columns A"],
    policy: Float[Tensor, "rows *#columns A"],
    action: Int[Tensor, "T *#columns"],
    action_prob: Float[Tensor, "T *#columns"],
    trace_decay: float,
) -> Float[Tensor, "T *#columns"]:
    """Retrace(lambda) returns in the space of `value` (Munos et al., 2016; the paper, appendix C).

        G[t] = r[t] + d[t] (E_pi q[t+1] + c[t+1] (G[t+1] - q[t+1, a[t+1]]))

    The traces c are 0 beyond the window and in padding. The recursion is solved for the corrections
    G[t] - q[t, a[t]], because they stay small where values are large.
    """
    with torch.no_grad():
        played = played_values(action, value[:-1])
        trace = retrace_traces(policy[:-1], action, action_prob, trace_decay)
        expected = (policy[1:] * value[1:]).sum(-1)
        return corrected_returns(rows, played, expected, trace)


def expected_returns(
    rows: Rows, expected: Float[Tensor, "rows *#columns"], trace: Float[Tensor, "T *#columns"]
) -> Float[Tensor, "T *#columns"]:
    """Returns that mix the value of the next row with the return from there.

        G[t] = r[t] + d[t] (E_pi q[t+1] + c[t+1] (G[t+1] - E_pi q[t+1]))

    `expected` is E_pi q of all rows. With c = lambda this is Peng's Q(lambda) (Peng & Williams,
    1996), with the traces of `ops.meme` it is soft Watkins Q(lambda). Unlike Retrace, the
    correction is relative to the expected value of the row, not to the value of the action that was
    played in it.
    """
    with torch.no_grad():
        return corrected_returns(rows, expected[:-1], expected[1:], trace)


def corrected_returns(
    rows: Rows,
    baseline: Float[Tensor, "T *#columns"],
    expected: Float[Tensor, "T *#columns"],
    trace: Float[Tensor, "T *#columns"],
) -> Float[Tensor, "T *#columns"]:
    """The solution of G[t] = r[t] + d[t] (e[t] + c[t+1] (G[t+1] - b[t+1])), and 0 in padding.

    `baseline` is b. `expected` is e, the expected value of the next row.
    """
    reward, discount, mask = rows
    trace = torch.where(mask, trace, 0.0)
    following = torch.cat([trace[1:], torch.zeros_like(trace[:1])])  # c[t+1]
    error = torch.where(mask, reward + discount * expected - baseline, 0.0)
    correction = linear_recurrence(error, torch.where(mask, discount * following, 0.0))
    return torch.where(mask, baseline + correction, 0.0)


def n_step_targets(
    rows: Rows, bootstrap: Float[Tensor, "rows *#columns"], n: int
) -> Float[Tensor, "T *#columns"]:
    """n-step returns in the space of `bootstrap`, the value of each observation (R2D2).

        G[t] = r[t] + d[t] r[t+1] + ... + d[t] ... d[t+m-1] bootstrap[t+m]

    m is n, or the number of valid rows that are left if fewer are left.
    """
    reward, discount, mask = rows
    with torch.no_grad():
        target = bootstrap
        for _ in range(n):
            longer = torch.where(mask, reward + discount * target[1:], bootstrap[:-1])
            target = torch.cat([longer, bootstrap[-1:]])
        return torch.where(mask, target[:-1], 0.0)
