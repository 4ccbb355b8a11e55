"""Writes metrics for TensorBoard: one event file per session of a run.

TensorBoard's own writer is not used, because its thread dies with a traceback when a disk is full.
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
    """Writes scalars over frames. Curves of earlier sessions are shown up to `first_frames`."""

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
    """Adapts a growing file to TensorBoard's record writer."""

    def __init__(self, file: GrowingFile) -> None:
        self._file = file

    def write(self, record: bytes) -> None:
        self._file.append(record)
