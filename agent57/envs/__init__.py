"""Environments of many lanes."""
