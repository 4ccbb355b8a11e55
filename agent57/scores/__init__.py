"""The paper's scores, and aggregates of scores over games and seeds."""
