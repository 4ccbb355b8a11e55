"""Prioritised sequence replay."""
