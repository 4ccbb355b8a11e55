"""The paper's claims, suites of games, and the queue of runs behind both."""
