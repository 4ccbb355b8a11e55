"""The paper's claims, suites of games, and the queue that trains their runs."""
