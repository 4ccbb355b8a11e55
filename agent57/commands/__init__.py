"""One module per command, with its options and a call to the code that does the work."""
