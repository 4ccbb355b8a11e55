"""Loads, plays and evaluates trained runs."""
