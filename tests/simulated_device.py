"""A device that is not the CPU, on machines without a GPU: torch's `meta` device, made strict.

`meta` tensors have shapes but no data. As on a GPU, an operation must not mix them with CPU
tensors. `meta` itself allows mixed matrix products, convolutions and indexing, so every operation
is checked here. Copies back to the CPU, which `meta` refuses, return zeros.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
CPU = torch.device("cpu")
READ = "aten._local_scalar_dense"
MOVES = ("aten.to", "aten._to_copy")
COPY = "aten.copy_"
INDEXED = ("aten.index", "aten.index_put_")  # indices of the CPU may be used on a GPU


class MixedDevices(RuntimeError):
    """An operation on tensors of the device and of the CPU."""


class SimulatedDevice(TorchDispatchMode):
    """Runs operations as a separate device would, and counts the operations of this device."""

    def __init__(self) -> None:
        super().__init__()
        self.num_operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves, operation = tree_leaves((args, kwargs)), str(func.overloadpacket)
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        if operation == READ and tensors[0].is_meta:
            return 0
        if operation in MOVES:
            if not tensors[0].is_meta or CPU not in leaves:
                return func(*args, **kwargs)
            dtype = next((x for x in leaves if isinstance(x, torch.dtype)), tensors[0].dtype)
            return torch.zeros(tensors[0].shape, dtype=dtype)
        if operation != COPY:
            may_mix = operation in INDEXED and tensors[0].is_meta
            checked = tensors[:1] if may_mix else tensors
            # A CPU tensor without dimensions may be combined with tensors of a GPU.
            devices = {x.device.type for x in checked if x.dim()}
            if len(devices) > 1:
                raise MixedDevices(f"{func} on {sorted(devices)}")
            self.num_operations += devices == {"meta"}
        return func(*args, **kwargs)
