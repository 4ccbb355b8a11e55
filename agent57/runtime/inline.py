"""The reference runtime: all parts in one process, one step after another.

    environment -> actor -> replay -> learner -> back to the actor

It is deterministic: on one machine a seed always gives the same result, bit for bit. The cluster
runtime runs the same parts.
"""

from agent57.config import Config
from agent57.replay.buffer import SamplesPerInsert
from agent57.runtime.parts import Parts
from agent57.runtime.session import Session
from agent57.storage.journal import Journal


def train(config: Config, parts: Parts, journal: Journal, session: Session) -> None:
    """Play and learn until the run has all its frames or the session is told to stop."""
    actor, replay, learner, evaluator = parts.actor, parts.replay, parts.learner, parts.evaluator
    ratio = SamplesPerInsert(config.replay)
    batch_size = config.learner.batch_size
    while actor.num_frames < config.run.frames and not session.is_stopping:
        scores = evaluator.step(actor.num_frames)
        blocks, episodes, diagnostics = actor.step()
        for block in blocks:
            replay.add(block)

        num_inserted = replay.num_windows_inserted if replay.num_windows else 0
        num_owed = ratio.updates_owed(num_inserted, learner.num_updates, batch_size)
        for batch in replay.batches(num_owed, batch_size):
            update = learner.update(batch)
            replay.reprioritise(batch.key, update.priorities)
            journal.add(update.metrics)

        for episode in (*episodes, *scores):
            journal.add_episode(episode)
        journal.add(diagnostics)
        if journal.is_due(actor.num_frames):
            journal.write(parts.counters(), parts.summary())
        session.tick(parts)
