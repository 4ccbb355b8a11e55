"""The files of a run: configuration, journals, checkpoints."""
