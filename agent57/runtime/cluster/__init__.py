"""The parts of `inline`, each in a process of its own on Ray: one machine or many."""
