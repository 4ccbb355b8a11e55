"""Agent57 (Badia et al., 2020) as software: train it, resume it, load it, build on it."""

__version__ = "0.1.0"
