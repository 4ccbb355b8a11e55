"""Totals of a cluster: work done and work lost. Only answers count, never calls."""

from dataclasses import dataclass


class Died(Exception):
    """The process that was called is gone."""


class Gone(Exception):
    """An argument of a call could not be fetched: it was lost with the node that held it."""


UNANSWERED = (Died, Gone)
MAX_FAILURES = 5  # of a process in a row, without any work done


class PartLost(RuntimeError):
    """A part of the run is gone and cannot be restored; the text names the part and the cause."""


@dataclass(slots=True)
class Totals:
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
        """Version of the learner's weights: all updates ever made, lost ones included."""
        return self.updates + self.lost_updates
