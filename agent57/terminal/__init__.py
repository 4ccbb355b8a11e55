"""Views of long work in a terminal."""
