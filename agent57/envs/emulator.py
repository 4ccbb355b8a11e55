"""The ALE's vector emulators, and a camera that replays a lane's episode in colour."""

import numpy as np
from ale_py.vector_env import AtariVectorEnv

from agent57.config import EnvConfig
from agent57.envs.lanes import EpisodeLog

SCREEN = (210, 160)  # rows, columns of all 57 games


def make_emulator(
    game: str, num_lanes: int, config: EnvConfig, *, grayscale: bool, size: tuple[int, int]
) -> AtariVectorEnv:
    """Return the emulators of a game, with every option set explicitly.

    The emulators' time cap lies beyond the configured cap, which `AtariEnv` counts itself. At their
    own cap they would return the last observation but one. No-ops are 0 to noop_max - 1 frames.
    """
    return AtariVectorEnv(
        game=game,
        num_envs=num_lanes,
        batch_size=num_lanes,
        num_threads=0,  # one per lane, at most one per core
        thread_affinity_offset=-1,  # threads are not bound to cores
        max_num_frames_per_episode=config.max_episode_frames + 2 * config.frame_skip,
        repeat_action_probability=config.sticky_actions,
        full_action_space=config.actions == "full",
        continuous=False,
        continuous_action_threshold=0.5,  # unused
        autoreset_mode="NextStep",  # never reached: lanes that ended are reset by mask
        img_height=size[0],
        img_width=size[1],
        grayscale=grayscale,
        stack_num=1,
        frameskip=config.frame_skip,
        maxpool=True,
        noop_max=config.noop_max,
        episodic_life=False,
        life_loss_info=False,
        reward_clipping=False,
        use_fire_reset=False,
    )


class Camera:
    """Replays one lane's episode in colour, up to the lane's latest step."""

    def __init__(self, game: str, lane: int, config: EnvConfig) -> None:
        self._emulator = make_emulator(game, 1, config, grayscale=False, size=SCREEN)
        self._lane = lane
        self._episode = 0
        self._num_steps = 0
        self._picture = np.zeros((*SCREEN, 3), np.uint8)

    def picture(self, log: EpisodeLog) -> np.ndarray:
        """Play on to the lane's latest step, and return its screen, [210, 160, 3] uint8."""
        if self._episode != log.num_episodes[self._lane]:
            frames, _ = self._emulator.reset(seed=log.seed[[self._lane]])
            self._episode = int(log.num_episodes[self._lane])
            self._num_steps = 0
            self._picture = frames[0, 0]
        for action in log.actions(self._lane, self._num_steps):
            self._picture = self._emulator.step(np.array([action]))[0][0, 0]
            self._num_steps += 1
        return self._picture

    def close(self) -> None:
        """Release the emulator."""
        self._emulator.close()
