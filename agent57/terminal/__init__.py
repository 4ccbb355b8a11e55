"""Views of runs and of other long work in a terminal."""
