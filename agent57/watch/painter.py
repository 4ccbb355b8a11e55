"""Draws lanes in a separate process, so that the server neither loads torch nor plays games.

The process has a low priority, so it uses time that a training leaves over.
"""

import multiprocessing
import os
import signal
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from agent57.config import EnvConfig

NICE = 10  # with this priority a process gets a tenth of a core that is busy with a training

Lane = dict[str, Any]


class Painter:
    """Starts the drawing process at the first request, and asks it for pictures.

    trust: run the code of environments that are not installed packages
    """

    def __init__(self, *, trust: bool = False) -> None:
        self._trust = trust
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def draw(self, config: EnvConfig, lanes: list[Lane]) -> tuple[float, list[dict[str, str]]]:
        """Draw the lanes; return the core time in seconds that it took, and the pictures."""
        try:
            pipe = self._connect()
            pipe.send((config, lanes))
            seconds, pictures = pipe.recv()
        except (EOFError, OSError):  # the process is gone: the next request starts another
            self.close()
            return 0.0, [{"note": "the picture could not be drawn"} for _ in lanes]
        return seconds, pictures

    def _connect(self) -> Connection:
        if self._pipe is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, end = context.Pipe()
            self._process = context.Process(target=_paint, args=(end, self._trust), daemon=True)
            self._process.start()
            end.close()
        return self._pipe

    def end(self) -> None:
        """End the process; the next `draw` notices that it is gone."""
        if self._process is not None:
            self._process.kill()  # SDL, which draws some tasks, makes a process ignore SIGTERM
            self._process.join()

    def close(self) -> None:
        """End the process and forget it."""
        self.end()
        if self._pipe is not None:
            self._pipe.close()
        self._pipe = self._process = None


def _paint(pipe: Connection, trust: bool) -> None:
    """Answer requests with pictures until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server's process handles Ctrl-C
    from agent57.envs import gymnasium
    from agent57.watch.lane_camera import LaneCamera

    with suppress(AttributeError, OSError):
        os.nice(NICE)
    cameras: dict[EnvConfig, LaneCamera] = {}
    while True:
        try:
            config, lanes = pipe.recv()
            started = time.process_time()
            if trust:
                gymnasium.trust(config.name)
            camera = cameras.setdefault(config, LaneCamera(config))
            pictures = camera.pictures(lanes)
            pipe.send((time.process_time() - started, pictures))
        except (EOFError, OSError):
            return
