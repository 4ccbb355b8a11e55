"""The 57 Atari games, as the paper plays them.

Frames are not stacked and rewards not clipped. Actions are sticky only on request. Lanes never
reset themselves.

When a game is over, the emulator stops before it takes a new picture, so the last observation is
older than the end. It is never bootstrapped from. The last observation at the time cap is current.
"""

import numpy as np

from agent57.config import EnvConfig, require
from agent57.envs.emulator import SCREEN, Camera, make_emulator
from agent57.envs.games import ATARI_GAMES
from agent57.envs.lanes import LoggedEnv, pending
from agent57.envs.spec import Step
from agent57.types import EnvSpec

MIN_FRAME_SIZE = 36  # pixels per side that the pixel torso needs


class AtariEnv(LoggedEnv):
    """E lanes of one game, played by the emulator's own threads.

    Lanes in colour observe the screen itself. No network accepts it, but it can be drawn for free.
    """

    def __init__(
        self, game: str, num_lanes: int, config: EnvConfig, *, in_colour: bool = False
    ) -> None:
        require(game in ATARI_GAMES, f"env.name {game!r} is not one of the paper's 57 games")
        require(
            config.frame_size >= MIN_FRAME_SIZE,
            f"env.frame_size must be at least {MIN_FRAME_SIZE}, got {config.frame_size}",
        )
        self._config = config
        self._in_colour = in_colour
        size = SCREEN if in_colour else (config.frame_size, config.frame_size)
        self._emulator = make_emulator(game, num_lanes, config, grayscale=not in_colour, size=size)
        spec = EnvSpec(
            name=game,
            kind="pixels",
            observation_shape=(1, *size, 3) if in_colour else (1, *size),
            observation_dtype="uint8",
            num_actions=len(self._emulator.ale.get_action_set()),
            frames_per_step=config.frame_skip,
            action_names=tuple(
                action.name.lower() for action in self._emulator.ale.get_action_set()
            ),
        )
        super().__init__(spec, num_lanes)
        self._cameras: dict[int, Camera] = {}
        self._first_frames = np.zeros(num_lanes, np.int64)

    def reset(self, lanes: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Start episodes in the lanes of the mask; return all lanes' current observations."""
        self._lanes.check_reset(lanes, seeds)
        if lanes.any():
            with pending(f"{self.spec.name}: reset"):
                self._observation, told = self._emulator.reset(
                    seed=seeds[lanes].astype(np.int64), options={"reset_mask": lanes}
                )
            self._first_frames[lanes] = told["episode_frame_number"][lanes]
            self._began(lanes, seeds)
        return self._observation

    def step(self, action: np.ndarray) -> Step:
        """Play one action per lane, for `frame_skip` emulator frames."""
        action = self._lanes.check_action(action)
        with pending(f"{self.spec.name}: step"):
            self._observation, reward, terminated, _, _ = self._emulator.step(action)
        reward = reward.astype(np.float32)
        self._log.record(action, reward)
        num_frames = self._log.num_steps * self._config.frame_skip
        truncated = num_frames >= self._config.max_episode_frames
        return self._outcome(reward, terminated, truncated)

    def render(self, lane: int) -> np.ndarray:
        """Return the lane's screen in colour, [210, 160, 3] uint8.

        The first picture of an episode replays the episode from its start. Later pictures replay
        only the steps since the previous picture.
        """
        self._lanes.check_lane(lane)
        if self._in_colour:
            return self._observation[lane, 0]
        if lane not in self._cameras:
            self._cameras[lane] = Camera(self.spec.name, lane, self._config)
        return self._cameras[lane].picture(self._log)

    def first_frames(self, lane: int) -> int:
        """Return the number of no-op frames with which the lane's episode began."""
        return int(self._first_frames[lane])

    def close(self) -> None:
        """Release the emulators."""
        for camera in self._cameras.values():
            camera.close()
        self._emulator.close()
