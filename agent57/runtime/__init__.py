"""Runtimes: the loop in one process, and processes on Ray."""
