"""The intrinsic reward."""
