"""One module per command: its options, and a call to the part that does the work."""
