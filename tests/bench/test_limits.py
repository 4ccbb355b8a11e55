import torch
from torch import nn

from agent57.bench.limits import Emulator, Limits, count_flops
from agent57.config import EnvConfig


def test_a_matrix_product_is_counted_by_hand() -> None:
    a, b = torch.zeros(3, 5), torch.zeros(5, 7)
    assert count_flops(lambda: a @ b) == 2 * 3 * 5 * 7


def test_an_lstm_is_counted_by_hand_forward_and_backward() -> None:
    rows, batch, inputs, units = 6, 2, 5, 4
    lstm = nn.LSTM(inputs, units)
    sequence = torch.zeros(rows, batch, inputs)
    once = 2 * rows * batch * 4 * units * (inputs + units)

    def forward() -> torch.Tensor:
        return lstm(sequence)[0]

    with torch.no_grad():
        assert count_flops(forward) == once
    assert count_flops(lambda: forward().sum().backward()) == 3 * once


def test_limits_are_positive() -> None:
    limits = Limits(seconds=0.0)
    assert limits.flop().wall > 0
    assert limits.byte().wall > 0


def test_the_emulator_plays_on_over_the_end_of_episodes() -> None:
    emulator = Emulator(EnvConfig(name="random_coin", max_episode_frames=3), num_lanes=2)
    for _ in range(10):
        emulator.step()
    emulator.close()
