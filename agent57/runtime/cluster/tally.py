"""What a cluster has done and what it has lost. Only answers count, never calls."""

from dataclasses import dataclass


class Died(Exception):
    """The process that was called is gone."""


class Gone(Exception):
    """What a call was given could not be fetched: it went with the node that held it."""


UNANSWERED = (Died, Gone)
MAX_FAILURES = 5  # of a process in a row, without any work done


class PartLost(RuntimeError):
    """A part of the run is gone and cannot be brought back: says which, and why."""


@dataclass(slots=True)
class Tally:
    """Totals since the run began, as checkpoints hold them."""

    steps: int = 0  # agent steps of all lanes
    evaluator_steps: int = 0  # of each of its lanes
    updates: int = 0  # that the learner's weights have had
    windows: int = 0  # inserted into the replay
    lost_transitions: int = 0  # counted as steps, but never or no longer in the replay
    lost_updates: int = 0  # that went with a learner
    actor_restarts: int = 0
    evaluator_restarts: int = 0
    shard_restarts: int = 0
    learner_restarts: int = 0

    @property
    def version(self) -> int:
        """Of the learner's weights: updates ever made, the lost ones included, so it only rises."""
        return self.updates + self.lost_updates
