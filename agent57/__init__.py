"""Agent57 (Badia et al., 2020) as software: train it, resume it, load it, build on it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent57.trained.loaded_policy import load as load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """`agent57.load`, imported when first asked for: it needs torch, the command line may not."""
    if name == "load":
        from agent57.trained.loaded_policy import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
