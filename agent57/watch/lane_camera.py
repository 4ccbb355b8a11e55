"""Draws the lanes of a training, outside the process that trains.

The training writes seeds and actions (`video/lane_files.py`). This module replays them in colour,
so the training neither renders nor waits.
"""

import base64
import io
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from agent57.config import ConfigError, EnvConfig
from agent57.envs.games import ATARI_GAMES
from agent57.envs.make import make_env, make_game
from agent57.envs.spec import EnvironmentFault, VectorEnv

TURN_STEPS = 500  # steps replayed per picture; the rest of a long episode follows later
MAX_SIDE = 240  # largest width and height of a picture, in pixels
ONE = np.ones(1, bool)

Lane = dict[str, Any]


def as_png(picture: np.ndarray) -> str:
    """Return a picture as a data URL; large pictures are made smaller."""
    image = Image.fromarray(picture)
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


class LaneCamera:
    """Replays the episodes of some lanes, each in its own environment."""

    def __init__(self, config: EnvConfig) -> None:
        self._config = replace(config, parallel="sync")
        self._replays: dict[str, _Replay] = {}

    def pictures(self, lanes: list[Lane]) -> list[dict[str, str]]:
        """Return the picture of each lane, or the reason why there is none."""
        return [self._picture(lane["name"], lane) for lane in lanes]

    def _picture(self, name: str, lane: Lane) -> dict[str, str]:
        try:
            if "picture" in lane:
                return {"source": as_png(np.array(lane["picture"], np.uint8))}
            if "actions" not in lane:
                return {"note": "this task cannot be played again from its seed"}
            if name not in self._replays:
                self._replays[name] = _Replay(self._make_env())
            return self._replays[name].picture(lane)
        except (ConfigError, EnvironmentFault, ValueError) as error:
            return {"note": str(error)}
        except (LookupError, TypeError, OverflowError):  # a foreign file
            return {"note": "the description of this lane is damaged"}

    def _make_env(self) -> VectorEnv:
        if self._config.name in ATARI_GAMES:
            return make_game(self._config, 1, in_colour=True)
        return make_env(self._config, 1)


class _Replay:
    """The episode of one lane, as far as it has been replayed."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self._episode: tuple[int, int] | None = None  # number and seed
        self._actions = np.empty(0, np.int64)
        self._return = 0.0
        self._is_over = False

    def picture(self, lane: Lane) -> dict[str, str]:
        actions = np.frombuffer(base64.b64decode(lane["actions"]), np.dtype(lane["dtype"]))
        episode = (int(lane["episode"]), int(lane["seed"]))
        played = len(self._actions)
        if episode != self._episode or not np.array_equal(actions[:played], self._actions):
            self._env.reset(ONE, np.array([lane["seed"]], np.int64))
            self._episode, self._actions, self._return = episode, np.empty(0, np.int64), 0.0
            self._is_over = False
        self._play(actions[len(self._actions) :][:TURN_STEPS])
        left = len(actions) - len(self._actions)
        if left and not self._is_over:
            return {"source": self._png(), "note": f"catching up: {left:,} steps behind"}
        if left or not np.isclose(self._return, lane["score"], rtol=1e-4, atol=1e-4):
            return {"note": "no picture: a replay of this episode takes another course"}
        return {"source": self._png()}

    def _png(self) -> str:
        return as_png(self._env.render(0))

    def _play(self, actions: np.ndarray) -> None:
        count = 0
        for action in actions:
            if self._is_over:
                break
            step = self._env.step(np.array([action], np.int64))
            self._return += float(step.reward[0])
            self._is_over = bool(step.terminated[0] | step.truncated[0])
            count += 1
        self._actions = np.concatenate([self._actions, actions[:count].astype(np.int64)])
