"""Totals of a cluster: work done and work lost. Work counts when a process has answered."""

from dataclasses import dataclass


class Died(Exception):
    """The process that was called is gone."""


class Gone(Exception):
    """An argument of a call could not be fetched: it was lost with the node that held it."""


UNANSWERED = (Died, Gone)
MAX_FAILURES = 5  # deaths of a process in a row, without any work done


class PartLost(RuntimeError):
    """A part of the run is lost and cannot be restored; the message names part and cause."""


@dataclass(slots=True)
class Totals:
    """Totals since the run began, as checkpoints hold them."""

    steps: int = 0  # agent steps of all lanes
    evaluator_steps: int = 0  # steps per evaluator lane
    updates: int = 0  # updates contained in the learner's weights
    windows: int = 0  # windows inserted into the replay
    lost_transitions: int = 0  # counted as steps, but lost before or after reaching the replay
    lost_updates: int = 0  # updates lost with a learner that died
    actor_restarts: int = 0
    evaluator_restarts: int = 0
    shard_restarts: int = 0
    learner_restarts: int = 0

    @property
    def version(self) -> int:
        """Version of the learner's weights: all updates ever made, including lost updates."""
        return self.updates + self.lost_updates
