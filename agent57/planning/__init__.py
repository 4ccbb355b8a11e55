"""Predicts speed and needs of a configuration, from costs measured on a machine."""
