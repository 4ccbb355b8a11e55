"""Predicts what a configuration will need and reach, from costs measured on a machine."""
