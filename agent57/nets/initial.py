"""Initial weights of the value networks.

PyTorch's default initialisation shrinks activations: each layer with a ReLU leaves a sixth of a
signal's mean square, so one grid cell hardly reaches the LSTM. "scaled" weights keep the size of
signals (He et al., 2015), except in the outputs: values begin near 0. Otherwise the noise of Q^e
would hide beta Q^i until there are rewards to learn from.
"""

import itertools
import math

from torch import Tensor, nn

OUTPUT_GAIN = 0.01  # of orthogonal outputs
OUTPUT_VARIANCE = 1e-4  # times 1 / fan-in; not 0, or the greedy action would be the first one


def draw_orthogonal(network: nn.Module) -> None:
    """Draw orthogonal weights, for networks with layer normalisation; biases become 0.

    Rows have the length sqrt(2) before a ReLU, 1 in LSTMs, and 0.01 in outputs. LSTMs keep their
    biases.
    """
    for chain in network.modules():
        if isinstance(chain, nn.Sequential):
            for part in chain:
                if isinstance(part, nn.Conv2d | nn.Linear):
                    is_output = part is chain[-1]
                    nn.init.orthogonal_(part.weight, OUTPUT_GAIN if is_output else math.sqrt(2))
                    assert part.bias is not None
                    nn.init.zeros_(part.bias)
        elif isinstance(chain, nn.LSTM):
            for weight in chain.all_weights[0][:2]:  # of the input and of the hidden part
                for gate in weight.chunk(4):
                    nn.init.orthogonal_(gate)


def draw_scaled(network: nn.Module) -> None:
    """Draw weights whose variance suits the layer.

    It is 2 / fan-in before a ReLU, 1 / fan-in in LSTMs, 1e-4 / fan-in elsewhere. The distribution
    is normal, cut at two deviations. Biases become 0; LSTMs keep their biases.
    """
    before_relu = {
        layer
        for chain in network.modules()
        if isinstance(chain, nn.Sequential)
        for layer, following in itertools.pairwise(chain)
        if isinstance(following, nn.ReLU | nn.LeakyReLU)
    }
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            variance = 2 if layer in before_relu else OUTPUT_VARIANCE
            _draw(layer.weight, variance / layer.weight[0].numel())
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.LSTM):
            for weight in layer.all_weights[0][:2]:  # of the input and of the hidden part
                _draw(weight, 1 / (layer.input_size + layer.hidden_size))


def _draw(weight: Tensor, variance: float) -> None:
    deviation = math.sqrt(variance) / 0.87962566  # the cut leaves this share of a normal deviation
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
