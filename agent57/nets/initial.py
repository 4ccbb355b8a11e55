"""The weights that networks begin with.

PyTorch's own shrink what passes: each layer with a ReLU leaves a sixth of a signal's mean square.
Of one cell of a grid, or of a few pixels, little then arrives for the LSTM to remember and for RND
to tell apart. "scaled" weights keep the size of signals (He et al., 2015).
"""

import math

from torch import Tensor, nn


def draw_scaled(network: nn.Module) -> None:
    """Variance 2 / fan-in before a ReLU and 1 / fan-in elsewhere, cut at two deviations; biases 0.

    Biases of LSTMs stay as they are.
    """
    before_relu = {
        layer
        for chain in network.modules()
        if isinstance(chain, nn.Sequential)
        for layer, following in zip(chain, list(chain)[1:], strict=False)
        if isinstance(following, nn.ReLU)
    }
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            variance = 2 if layer in before_relu else 1
            _draw(layer.weight, variance / layer.weight[0].numel())
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.LSTM):
            for weight in layer.all_weights[0][:2]:  # of the input and of the hidden part
                _draw(weight, 1 / (layer.input_size + layer.hidden_size))


def _draw(weight: Tensor, variance: float) -> None:
    deviation = math.sqrt(variance) / 0.87962566  # what the cut leaves of a normal deviation
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
