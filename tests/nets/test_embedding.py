"""The controllable-state embedding and its inverse dynamics."""

import torch
import torch.nn.functional as F
from torch import Tensor

from agent57.config import NetworkConfig
from agent57.nets.networks import Embedding
from agent57.nets.torso import Trunk

N, D, A = 5, 6, 3


def make() -> Embedding:
    torch.manual_seed(0)
    config = NetworkConfig(feature_size=8, embedding_size=D, inverse_head_size=7)
    return Embedding(config, Trunk(config, "vector", (4,)), A)


def action_logits(embedding: Embedding, before: Tensor, after: Tensor) -> Tensor:
    return embedding.action_logits(embedding(before), embedding(after))


def test_shapes() -> None:
    embedding = make()
    assert embedding(torch.randn(N, 4)).shape == (N, D)
    assert action_logits(embedding, torch.randn(N, 4), torch.randn(N, 4)).shape == (N, A)


def test_logits_by_definition() -> None:
    embedding = make()
    before, after = torch.randn(N, 4), torch.randn(N, 4)
    both = torch.cat([embedding(before), embedding(after)], dim=1)
    expected = embedding.inverse[2](F.relu(embedding.inverse[0](both)))
    torch.testing.assert_close(action_logits(embedding, before, after), expected)


def test_the_order_of_the_two_states_counts() -> None:
    embedding = make()
    before, after = torch.randn(N, 4), torch.randn(N, 4)
    there, back = action_logits(embedding, before, after), action_logits(embedding, after, before)
    assert (there - back).abs().max() > 1e-4


def test_the_embedding_is_linear_at_its_end() -> None:
    # A ReLU at the end would lose half of the directions in which states can differ.
    assert (make()(torch.randn(100, 4)) < 0).any()


def test_regression_logits_are_not_probabilities() -> None:
    # A softmax before the cross-entropy would make rows sum to one.
    logits = action_logits(make(), torch.randn(N, 4), torch.randn(N, 4))
    assert (logits < 0).any()
    assert (logits.sum(-1) - 1).abs().max() > 1e-3


def test_inverse_dynamics_can_be_learned() -> None:
    # x' = x + move(a): the embedding and the classifier must both get gradients to find it.
    embedding = make()
    moves = torch.randn(A, 4)
    optimiser = torch.optim.Adam(embedding.parameters(), 1e-2)
    for _ in range(100):
        before, action = torch.randn(64, 4), torch.randint(A, (64,))
        loss = F.cross_entropy(action_logits(embedding, before, before + moves[action]), action)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert all(p.grad is not None and p.grad.any() for p in embedding.parameters())
    assert loss < 0.3
