"""From observations to features: the DQN convolutions for pixels, small ones for grids.

Observations are prepared once (`prepare`) and shared by all networks that look at them.
"""

import math

import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor, nn

from agent57.config import Kind, NetworkConfig
from agent57.own_parts import own_torso


def num_planes(kind: Kind, observation_shape: tuple[int, ...], max_value: int) -> int:
    """Channels of a prepared observation, or its length if it is a vector."""
    bits = max_value.bit_length() if kind == "grid" else 1
    return observation_shape[0] * bits


def prepare(
    observation: Shaped[Tensor, "*lead C Y X"] | Float[Tensor, "*lead D"],
    kind: Kind,
    max_value: int,
) -> Float[Tensor, "*lead P Y X"] | Float[Tensor, "*lead D"]:
    """Observations as the networks take them.

    Pixels are brightness, scaled to [0, 1]. The cells of a small grid are symbols, not brightness:
    each becomes the bits of its code. Vectors stay as they are. The planes of a cell lie side by
    side in memory, as the convolutions want them.
    """
    if kind == "vector":
        return observation.float()
    if kind == "pixels":
        return observation.float().div_(max_value)
    bit = torch.arange(max_value.bit_length(), device=observation.device, dtype=torch.uint8)
    symbols = observation.movedim(-3, -1).contiguous()  # [..., Y, X, C]
    planes = symbols.unsqueeze(-1).bitwise_right_shift(bit).bitwise_and(1)
    return planes.flatten(-2).float().movedim(-1, -3)


def layer(linear: nn.Conv2d | nn.Linear, unit: nn.Module, is_normalised: bool) -> list[nn.Module]:
    """A convolution or dense layer, its normalisation if any, and its unit.

    Each observation is normalised over all its channels and cells.
    """
    if not is_normalised:
        return [linear, unit]
    if isinstance(linear, nn.Linear):
        return [linear, nn.LayerNorm(linear.out_features), unit]
    return [linear, nn.GroupNorm(1, linear.out_channels), unit]


class Residual(nn.Module):
    """x + gain f(x) with two 3x3 layers f and a gain that is learned from 0 (SkipInit).

    Without normalisation, signals keep their size through any number of such blocks (De & Smith,
    2020).
    """

    def __init__(self, channels: int, *, is_normalised: bool) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)]
        first = layer(convolutions[0], nn.ReLU(inplace=True), is_normalised)
        self.branch = nn.Sequential(nn.ReLU(), *first, convolutions[1])
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "N C Y X"]) -> Float[Tensor, "N C Y X"]:
        """The sum of the signal and its change."""
        return x + self.gain * self.branch(x)


def prepare_fused(
    observation: UInt8[Tensor, "*lead N"],
    image_shape: tuple[int, ...],
    kind: Kind,
    max_value: int,
) -> Float[Tensor, "*lead M"]:
    """Prepare an image and the float numbers that follow it, all given as bytes.

    The result is the prepared image, flat, and then the numbers as they are.
    """
    size = math.prod(image_shape)
    image = observation[..., :size].reshape(*observation.shape[:-1], *image_shape)
    beside = observation[..., size:].clone(memory_format=torch.contiguous_format)
    numbers = beside.view(torch.float32)
    return torch.cat([prepare(image, kind, max_value).flatten(-3), numbers], dim=-1)


class Trunk(nn.Module):
    """The part before the first dense layer, for any of the three kinds of observation.

    Where `num_beside` numbers come with an image, they join the features of its convolutions.
    """

    def __init__(
        self,
        config: NetworkConfig,
        kind: Kind,
        prepared_shape: tuple[int, ...],
        num_beside: int = 0,
        *,
        is_normalised: bool = False,
    ) -> None:
        super().__init__()
        self._image_shape = prepared_shape
        self._num_beside = num_beside
        planes = prepared_shape[0]
        layers: list[nn.Module] = []
        if config.own_torso:
            layers = [own_torso(config.own_torso)(prepared_shape)]
        elif kind != "vector" and config.torso == "residual":
            sizes = config.channels if kind == "pixels" else config.grid_channels
            for index, size in enumerate(sizes):
                stride = 1 if kind == "grid" and index == 0 else 2
                convolution = nn.Conv2d(planes, size, 3, stride, padding=1)
                layers += [convolution, Residual(size, is_normalised=is_normalised)]
                planes = size
            layers.append(nn.ReLU(inplace=True))
        elif kind == "pixels":
            geometry = ((8, 4), (4, 2), (3, 1))  # DQN: kernel, stride
            for size, (kernel, stride) in zip(config.channels, geometry, strict=True):
                convolution = nn.Conv2d(planes, size, kernel, stride)
                layers += layer(convolution, nn.ReLU(inplace=True), is_normalised)
                planes = size
        elif kind == "grid":
            for index, size in enumerate(config.grid_channels):
                stride = 1 if index == 0 else 2  # every cell is seen before any is merged
                convolution = nn.Conv2d(planes, size, 3, stride, padding=1)
                layers += layer(convolution, nn.ReLU(inplace=True), is_normalised)
                planes = size
        else:
            dense = nn.Linear(planes, config.feature_size)
            layers = layer(dense, nn.ReLU(inplace=True), is_normalised)
        self.layers = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            num_seen = math.prod(self.layers(torch.zeros(1, *prepared_shape)).shape[1:])
        self.num_features = num_seen + num_beside

    def forward(self, prepared: Float[Tensor, "N *shape"]) -> Float[Tensor, "N F"]:
        """Features of N observations."""
        if not self._num_beside:
            return self.layers(prepared)
        image, beside = prepared.split([prepared.shape[-1] - self._num_beside, self._num_beside], 1)
        return torch.cat([self.layers(image.unflatten(1, self._image_shape)), beside], dim=1)
