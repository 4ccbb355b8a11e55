"""Compilation of updates (`learner.compile`), with a fallback where compiling is impossible.

On a CPU an update is almost only matrix products, and compiling made it slower
(docs/PERFORMANCE.md). On a GPU compiling saves the launches of many small kernels.
"""

import os
import shutil
import warnings
from collections.abc import Callable
from typing import Generic, Literal, ParamSpec, TypeVar

import torch

from agent57.config import require

Inputs = ParamSpec("Inputs")
Output = TypeVar("Output")


def has_compiler() -> bool:
    """Whether torch.compile would find a C++ compiler."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))


def check_compiler(mode: Literal["auto", "on", "off"]) -> None:
    """Refuse mode on where there is no C++ compiler."""
    require(
        mode != "on" or has_compiler(),
        "learner.compile on needs a C++ compiler: install g++, or set it to off",
    )


def compiled(
    function: Callable[Inputs, Output], mode: Literal["auto", "on", "off"], device: torch.device
) -> Callable[Inputs, Output]:
    """Return the function, to be compiled at its first call if `mode` is on.

    In mode auto it is compiled on a GPU, if a compiler is found.
    """
    if mode == "off" or (mode == "auto" and device.type != "cuda"):
        return function
    check_compiler(mode)
    if mode == "on":
        return torch.compile(function, dynamic=False)
    if not has_compiler():
        warnings.warn("no C++ compiler found: updates run uncompiled, and slower", stacklevel=2)
        return function
    return _Attempt(function)


class _Attempt(Generic[Inputs, Output]):
    """Calls a compiled function, and the plain function once compiling has failed."""

    def __init__(self, plain: Callable[Inputs, Output]) -> None:
        self._plain = plain
        self._compiled: Callable[Inputs, Output] | None = torch.compile(plain, dynamic=False)

    def __call__(self, *args: Inputs.args, **kwargs: Inputs.kwargs) -> Output:
        if self._compiled is not None:
            from torch._dynamo.exc import TorchDynamoException

            try:
                return self._compiled(*args, **kwargs)
            except TorchDynamoException as error:
                reason = str(error).strip().splitlines()[0]
                warnings.warn(f"updates run uncompiled, and slower: {reason}", stacklevel=2)
                self._compiled = None
        return self._plain(*args, **kwargs)
