"""Metrics for TensorBoard: an event file per session of a run.

Written here and not by TensorBoard's own writer, whose thread dies with a traceback when a disk is
full.
"""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from agent57.storage.growing import GrowingFile


class EventFile:
    """Scalars over frames. Curves of an earlier session are shown up to `first_frames` only."""

    def __init__(self, folder: Path, first_frames: int) -> None:
        name = f"events.out.tfevents.{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = GrowingFile(folder / name)
        self._add(Event(file_version="brain.Event:2"))
        self._add(Event(step=first_frames, session_log=SessionLog(status=SessionLog.START)))

    def write(self, scalars: Mapping[str, float], frames: int) -> None:
        """Add one point to each curve."""
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._add(Event(step=frames, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _add(self, event: Event) -> None:
        event.wall_time = time.time()
        RecordWriter(_Sink(self._file)).write(event.SerializeToString())


class _Sink:
    """A growing file as TensorBoard's record writer wants it."""

    def __init__(self, file: GrowingFile) -> None:
        self._file = file

    def write(self, record: bytes) -> None:
        self._file.append(record)
