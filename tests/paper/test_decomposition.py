"""Appendices B and C: separate values of r^e and r^i are equivalent to one value of their mixture.

Every scheme of the appendices is run exactly, in float64, in a small random decision process. The
mixture of the separate values equals the joint value after every iteration, not only in the limit.
"""

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor

from agent57.config import LearnerConfig
from agent57.ops.policy import epsilon_greedy, mix_values
from agent57.ops.retrace import Rows, retrace_targets
from agent57.ops.squash import squash, unsquash
from tests.ops.windows import errors_of

STATES, ACTIONS = 6, 3
GAMMA, BETA, LAMBDA, EPS = 0.9, 0.3, 0.95, 1e-3
WEIGHT = torch.tensor([1.0, BETA], dtype=torch.float64)[:, None].expand(2, STATES)

Kind = Literal["identity", "h"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def random_process() -> tuple[Tensor, Tensor, Tensor]:
    """Return transition probabilities [X, A, X] and two rewards [X, A]."""
    transition = torch.randn(STATES, ACTIONS, STATES, dtype=torch.float64).mul(2).softmax(-1)
    extrinsic = 5 * torch.randn(STATES, ACTIONS, dtype=torch.float64)
    intrinsic = 30 * torch.rand(STATES, ACTIONS, dtype=torch.float64)
    return transition, extrinsic, intrinsic


def to_real(value: Tensor, kind: Kind) -> Tensor:
    return unsquash(value, EPS) if kind == "h" else value


def to_learned(value: Tensor, kind: Kind) -> Tensor:
    return squash(value, EPS) if kind == "h" else value


def bellman(
    value: Tensor, reward: Tensor, transition: Tensor, policy: Tensor, kind: Kind
) -> Tensor:
    """T^pi_{r,h} Q = h(r + gamma P^pi h^-1(Q))."""
    expected = (policy * to_real(value, kind)).sum(-1)
    return to_learned(reward + GAMMA * transition @ expected, kind)


def retrace(
    value: Tensor, reward: Tensor, transition: Tensor, policy: Tensor, behaviour: Tensor, kind: Kind
) -> Tensor:
    """T^{mu,pi}_{r,h} Q = h(q + (I - gamma P^{c mu})^-1 (r + gamma P^pi q - q)), q = h^-1(Q)."""
    q = to_real(value, kind)
    error = reward + GAMMA * transition @ (policy * q).sum(-1) - q
    trace = LAMBDA * torch.minimum(torch.ones_like(policy), policy / behaviour)
    size = STATES * ACTIONS
    onward = (transition[..., None] * (trace * behaviour)).reshape(size, size)
    system = torch.eye(size, dtype=torch.float64) - GAMMA * onward
    return to_learned(q + torch.linalg.solve(system, error.reshape(size)).reshape(q.shape), kind)


@pytest.mark.parametrize("kind", ["identity", "h"])
@pytest.mark.parametrize("operator", [bellman, retrace])
def test_separate_value_iteration_is_the_joint_one(
    operator: Callable[..., Tensor], kind: Kind
) -> None:
    transition, extrinsic, intrinsic = random_process()
    separate = torch.randn(2, STATES, ACTIONS, dtype=torch.float64)
    joint = mix_values(separate, WEIGHT, kind, EPS)

    for iteration in range(300):
        mixture = mix_values(separate, WEIGHT, kind, EPS)
        torch.testing.assert_close(mixture, joint, rtol=1e-9, atol=1e-9)
        shared, own = epsilon_greedy(mixture, 0.0), epsilon_greedy(joint, 0.0)
        torch.manual_seed(iteration)  # an arbitrary behaviour in every iteration
        behaviour = torch.rand(STATES, ACTIONS, dtype=torch.float64).add(0.1)
        behaviour = behaviour / behaviour.sum(-1, keepdim=True)
        rest = (behaviour, kind) if operator is retrace else (kind,)
        separate = torch.stack(
            [
                operator(value, reward, transition, shared, *rest)
                for value, reward in zip(separate, [extrinsic, intrinsic], strict=True)
            ]
        )
        joint = operator(joint, extrinsic + BETA * intrinsic, transition, own, *rest)

    # Both have converged, to the fixed point of the optimal operator.
    greedy = epsilon_greedy(joint, 0.0)
    reward = extrinsic + BETA * intrinsic
    torch.testing.assert_close(bellman(joint, reward, transition, greedy, kind), joint)
    best = to_real(joint, kind).amax(-1)
    torch.testing.assert_close(reward + GAMMA * transition @ best, to_real(joint, kind))


def test_policies_of_their_own_break_the_decomposition() -> None:
    # The premise of the appendix fails if each network is greedy by itself.
    transition, extrinsic, intrinsic = random_process()
    values = torch.zeros(2, STATES, ACTIONS, dtype=torch.float64)
    joint = torch.zeros(STATES, ACTIONS, dtype=torch.float64)
    for _ in range(300):
        values = torch.stack(
            [
                bellman(q, r, transition, epsilon_greedy(q, 0.0), "identity")
                for q, r in zip(values, [extrinsic, intrinsic], strict=True)
            ]
        )
        reward = extrinsic + BETA * intrinsic
        joint = bellman(joint, reward, transition, epsilon_greedy(joint, 0.0), "identity")
    mixture = mix_values(values, WEIGHT, "identity", EPS)
    assert (mixture - joint).abs().max() > 0.1


def sample(transition: Tensor, behaviour: Tensor, rows: int, windows: int) -> tuple[Tensor, Tensor]:
    """Return states [T+1, B] and actions [T, B] of windows played with `behaviour` [X, A]."""
    states, actions = [torch.randint(STATES, (windows,))], []
    for _ in range(rows):
        actions.append(torch.multinomial(behaviour[states[-1]], 1)[:, 0])
        states.append(torch.multinomial(transition[states[-1], actions[-1]], 1)[:, 0])
    return torch.stack(states), torch.stack(actions)


@pytest.mark.parametrize("kind", ["identity", "h"])
def test_sampled_targets_decompose(kind: Kind) -> None:
    # The learner's own targets, on played windows: h^-1 of them adds up to the joint network's.
    transition, extrinsic, intrinsic = random_process()
    behaviour = torch.rand(STATES, ACTIONS, dtype=torch.float64).softmax(-1)
    state, action = sample(transition, behaviour, rows=20, windows=50)
    online, target = torch.randn(2, 2, STATES, ACTIONS, dtype=torch.float64)
    mask = torch.ones_like(action, dtype=torch.bool)
    mask[12:, ::2] = False

    def targets(online: Tensor, target: Tensor, values: Literal["separate", "joint"]) -> Tensor:
        q = online[:, state]
        td_error = errors_of(
            q,
            target[:, state],
            action=action,
            action_prob=behaviour[state[:-1], action],
            extrinsic=extrinsic[state[:-1], action],
            intrinsic=intrinsic[state[:-1], action],
            discount=torch.ones(action.shape, dtype=torch.float64),
            mask=mask,
            beta=torch.full((50,), BETA, dtype=torch.float64),
            gamma=torch.full((50,), GAMMA, dtype=torch.float64),
            loss=LearnerConfig(transform=kind, mixture=kind),
            values=values,
        )
        played = q[:, :-1].gather(-1, action.expand(len(q), -1, -1)[..., None])[..., 0]
        return to_real(td_error + played, kind)

    separate = targets(online, target, "separate")
    mixed = [mix_values(q, WEIGHT, kind, EPS)[None] for q in (online, target)]
    joint = targets(*mixed, "joint")[0]
    torch.testing.assert_close((separate[0] + BETA * separate[1])[mask], joint[mask])


def test_sampled_targets_average_to_the_operator() -> None:
    # Retrace windows of a fixed start: their mean is the exact operator, within sampling error.
    transition, extrinsic, _ = random_process()
    behaviour = torch.rand(STATES, ACTIONS, dtype=torch.float64).add(0.3)
    behaviour = behaviour / behaviour.sum(-1, keepdim=True)
    value = torch.randn(STATES, ACTIONS, dtype=torch.float64)
    policy = epsilon_greedy(torch.randn(STATES, ACTIONS, dtype=torch.float64), 0.2)
    state, action = sample(transition, behaviour, rows=60, windows=6_000)
    targets = retrace_targets(
        Rows(
            extrinsic[state[:-1], action],
            torch.full(action.shape, GAMMA, dtype=torch.float64),
            torch.ones_like(action, dtype=torch.bool),
        ),
        value[state],
        policy[state],
        action,
        behaviour[state[:-1], action],
        LAMBDA,
    )
    exact = retrace(value, extrinsic, transition, policy, behaviour, "identity")
    for x in range(STATES):
        for a in range(ACTIONS):
            found = targets[0][(state[0] == x) & (action[0] == a)]
            error = float(found.std()) / len(found) ** 0.5
            assert abs(float(found.mean()) - float(exact[x, a])) < 4.5 * error
