"""The controllable-state embedding f and the inverse-dynamics model that trains it (NGU)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from agent57.nets.torso import Trunk


class Embedding(nn.Module):
    """f(x), of which the episodic memory is made, with the classifier p(a | f(x), f(x'))."""

    def __init__(self, trunk: Trunk, size: int, hidden: int, num_actions: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.project = nn.Linear(trunk.num_features, size)
        self.inverse = nn.Sequential(
            nn.Linear(2 * size, hidden), nn.ReLU(), nn.Linear(hidden, num_actions)
        )

    def forward(self, prepared: Float[Tensor, "N *shape"]) -> Float[Tensor, "N D"]:
        """f(x) of N observations."""
        return self.project(self.trunk(prepared))

    def action_logits(
        self, before: Float[Tensor, "N *shape"], after: Float[Tensor, "N *shape"]
    ) -> Float[Tensor, "N A"]:
        """Unnormalised log-probabilities of the action that led from `before` to `after`."""
        both = self(torch.cat([before, after]))
        return self.inverse(torch.cat(both.chunk(2), dim=-1))
