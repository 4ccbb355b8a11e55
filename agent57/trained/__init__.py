"""Trained runs: load them, play them, evaluate them."""
