"""Random network distillation: what is still unlike anything seen in the whole run (NGU)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from agent57.nets.torso import Trunk


class Rnd(nn.Module):
    """A frozen random network g and the predictor that learns to imitate it."""

    def __init__(self, make_trunk: Callable[[], Trunk], size: int) -> None:
        super().__init__()
        self.target = self._network(make_trunk(), size).requires_grad_(False)
        self.predictor = self._network(make_trunk(), size)

    @staticmethod
    def _network(trunk: Trunk, size: int) -> nn.Sequential:
        return nn.Sequential(trunk, nn.Linear(trunk.num_features, size))

    def forward(self, prepared: Float[Tensor, "N *shape"]) -> Float[Tensor, "N"]:
        """err(x) = |g'(x) - g(x)|^2 of N observations."""
        return (self.predictor(prepared) - self.target(prepared)).square().sum(-1)
