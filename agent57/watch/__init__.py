"""The live page about runs, `agent57 watch`."""
