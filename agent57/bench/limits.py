"""Limits of a machine: the rates of matrix products, of reading memory and of the emulator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from agent57.bench.cost import Cost, cost_of
from agent57.config import EnvConfig
from agent57.envs.make import make_env
from agent57.threads import one_thread

MATRIX = 1024  # rows and columns
READ_BYTES = 256 << 20  # beyond any cache


class Limits:
    """Rates of this machine with the threads torch has now."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._a, self._b, self._c = torch.rand(3, MATRIX, MATRIX)
        self._flat = torch.ones(READ_BYTES // 4)
        self.flop()
        self.byte()

    def flop(self) -> Cost:
        """Cost of one floating-point operation of a large matrix product."""
        product = cost_of(lambda: torch.mm(self._a, self._b, out=self._c), self._seconds)
        return product * (1 / (2 * MATRIX**3))

    def byte(self) -> Cost:
        """Cost of reading one byte of memory."""
        return cost_of(self._flat.sum, self._seconds / 2) * (1 / READ_BYTES)


class Emulator:
    """Lanes of a game that are played at random, without an agent."""

    def __init__(self, config: EnvConfig, num_lanes: int) -> None:
        self.num_lanes = num_lanes
        self._env = make_env(config, num_lanes)
        self._rng = np.random.default_rng(0)
        self._reset(np.ones(num_lanes, bool))

    def step(self) -> None:
        """Play one action in every lane."""
        step = self._env.step(self._rng.integers(self._env.spec.num_actions, size=self.num_lanes))
        ended = step.terminated | step.truncated
        if ended.any():
            self._reset(ended)

    def _reset(self, lanes: np.ndarray) -> None:
        self._env.reset(lanes, self._rng.integers(2**31, size=self.num_lanes))

    def close(self) -> None:
        """Release the lanes."""
        self._env.close()


def _lstm_flops(x: torch.Size, w_x: torch.Size, w_h: torch.Size, *_: Any, **__: Any) -> int:  # noqa: ANN401
    """Operations of a sequence [T, B, I] with the weights [4 H, I] and [4 H, H]."""
    return 2 * x[0] * x[1] * w_x[0] * (w_x[1] + w_h[1])


def _lstm_backward_flops(*shapes: Any, **more: Any) -> int:  # noqa: ANN401
    return 2 * _lstm_flops(*shapes, **more)


_UNCOUNTED = {  # torch's counter does not know the CPU's fused LSTM
    torch.ops.aten.mkldnn_rnn_layer: _lstm_flops,
    torch.ops.aten.mkldnn_rnn_layer_backward: _lstm_backward_flops,
}


def count_flops(work: Callable[[], Any]) -> int:
    """Floating-point operations of matrix products, convolutions and LSTMs in one call.

    The call has one thread, because the counter does not see other threads.
    """
    with one_thread(), FlopCounterMode(display=False, custom_mapping=_UNCOUNTED) as counter:
        work()
    return counter.get_total_flops()
