"""The same parts as in `inline`, each in its own process on Ray, on one machine or many."""
