"""Scores: the paper's, and aggregates over games and seeds."""
