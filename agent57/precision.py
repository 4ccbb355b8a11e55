"""The precision that a learner computes in, and the machines where bfloat16 pays.

In bfloat16 the convolutions, dense layers and LSTMs of the value networks are computed under
autocast, up to the heads. Heads, weights, losses, optimisers and novelty networks stay in float32:
rounded values would hide which action is best.
"""

import platform
import time
from dataclasses import replace
from pathlib import Path

import torch

from agent57.config import Config, require

CPU_INFO = Path("/proc/cpuinfo")
FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # processors that multiply bfloat16, the last on ARM
SIZE = 512  # of the matrices of the probe
GAIN = 1.2  # that the probe must show


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type != "cpu" or platform.system() != "Linux":
        return False
    lines = CPU_INFO.read_text().lower().splitlines()
    flags = (line.partition(":")[2] for line in lines if line.startswith(("flags", "features")))
    return bool(FLAGS & set(next(flags, "").split()))


def settle_precision(config: Config, device: torch.device) -> Config:
    """The configuration with `learner.precision auto` decided for this device.

    Decided once, when a run starts: `config.json` then holds the decision, so that a run keeps the
    precision it began with.
    """
    require(
        config.learner.precision != "bfloat16" or has_bfloat16(device),
        "learner.precision bfloat16 needs a GPU, or a CPU with avx512_bf16 or amx_bf16: "
        "use float32 or auto",
    )
    if config.learner.precision != "auto":
        return config
    is_faster = has_bfloat16(device) and (device.type == "cuda" or _gain() >= GAIN)
    learner = replace(config.learner, precision="bfloat16" if is_faster else "float32")
    return replace(config, learner=learner)


def keep_precision(config: Config, begun: Config) -> Config:
    """The configuration with `learner.precision auto` decided as in a run that has begun."""
    if config.learner.precision != "auto":
        return config
    return replace(config, learner=replace(config.learner, precision=begun.learner.precision))


def _gain() -> float:
    """Speed of matrix products in bfloat16 over float32 on this CPU: the best of five turns."""
    wide = torch.ones(SIZE, SIZE)
    seconds: dict[torch.dtype, float] = {}
    for turn in range(6):
        for matrix in (wide, wide.bfloat16()):
            begun = time.thread_time()
            matrix @ matrix
            taken = time.thread_time() - begun
            if turn:  # the first one sets kernels up
                seconds[matrix.dtype] = min(taken, seconds.get(matrix.dtype, taken))
    return seconds[torch.float32] / max(seconds[torch.bfloat16], 1e-9)
