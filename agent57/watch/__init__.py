"""The live page about runs."""
