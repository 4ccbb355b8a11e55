"""Adapt environments that do not fit unchanged: an old interface, a large picture.

In this folder, with the packages installed:

agent57 train --env adapters:crafter --frames 1M
agent57 train --env vizdoom.gymnasium_wrapper:VizdoomBasic-v1 --wrapper adapters:small_screen
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from PIL import Image

SIZE = 84  # rows and columns of a small screen


class Crafter(gymnasium.Env[np.ndarray, int]):
    """Adapt Crafter (pip install crafter), which has old Gym's interface, to Gymnasium's."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None, length: int = 10_000) -> None:
        import crafter

        self.render_mode = render_mode
        self._make = crafter.Env
        self._length = length
        self._game = self._make(length=length)
        self.observation_space = spaces.Box(0, 255, self._game.observation_space.shape, np.uint8)
        self.action_space = spaces.Discrete(self._game.action_space.n)

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions, for the film of an episode."""
        return list(self._game.action_names)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        # A game's episodes depend on their number too. A new game depends on the seed only.
        number = int(self.np_random.integers(2**31 - 1))
        self._game = self._make(length=self._length, seed=number)
        return self._game.reset(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, is_over, info = self._game.step(int(action))
        is_dead = info["discount"] == 0
        return observation, float(reward), is_dead, bool(is_over) and not is_dead, {}

    def render(self) -> np.ndarray:
        return np.asarray(self._game.render((256, 256)))


def crafter(render_mode: str | None = None, length: int = 10_000) -> Crafter:
    """Make Crafter; `--env-kwargs length=500` makes short episodes."""
    return Crafter(render_mode, length)


class SmallScreen(gymnasium.ObservationWrapper):
    """Shows the part `screen` of an observation in grey, 84 x 84; other parts are unchanged."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Dict)
        small = spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)
        self.observation_space = spaces.Dict({**env.observation_space.spaces, "screen": small})

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        picture = Image.fromarray(observation["screen"]).convert("L").resize((SIZE, SIZE))
        return {**observation, "screen": np.asarray(picture, np.uint8)[..., None]}


def small_screen(env: gymnasium.Env[Any, Any]) -> SmallScreen:
    """Wrap ViZDoom, whose screen of 240 x 320 pixels in colour needs a large network."""
    return SmallScreen(env)
