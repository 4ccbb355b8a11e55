"""Runtimes: all parts in one process, or in processes on Ray."""
