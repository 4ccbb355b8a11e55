"""What may be asked of E lanes: the checks that all environments share. Nothing is played here."""

import numpy as np

MAX_SEED = 2**31 - 1


class Lanes:
    """Which lanes have a running episode; refuses what no environment could answer."""

    def __init__(self, name: str, num_lanes: int, num_actions: int) -> None:
        if num_lanes < 1:
            raise ValueError(f"{name} needs at least one lane, got {num_lanes}")
        self.name = name
        self.num_lanes = num_lanes
        self.num_actions = num_actions
        self.is_playing = np.zeros(num_lanes, bool)
        self._was_reset = False

    def check_reset(self, lanes: np.ndarray, seeds: np.ndarray) -> None:
        """Refuse a mask or seeds that do not fit."""
        for name, array, kind in (("lanes", lanes, "b"), ("seeds", seeds, "iu")):
            if array.shape != (self.num_lanes,) or array.dtype.kind not in kind:
                raise ValueError(
                    f"{self.name}: {name} must be one {'bool' if kind == 'b' else 'integer'} for "
                    f"each of {self.num_lanes} lanes, got {array.dtype} {array.shape}"
                )
        chosen = seeds[lanes]
        if chosen.size and not (chosen.min() >= 0 and chosen.max() <= MAX_SEED):
            raise ValueError(f"{self.name}: seeds must lie in [0, {MAX_SEED}], got {chosen}")
        if not (self._was_reset or lanes.all()):
            raise ValueError(f"{self.name}: the first reset must be of all lanes")

    def check_action(self, action: np.ndarray) -> np.ndarray:
        """The actions as int64, if each lane can play its own."""
        if action.shape != (self.num_lanes,) or action.dtype.kind not in "iu":
            raise ValueError(
                f"{self.name}: action must be one integer for each of {self.num_lanes} lanes, "
                f"got {action.dtype} {action.shape}"
            )
        if not (action.min() >= 0 and action.max() < self.num_actions):
            lane = int(np.argmax((action < 0) | (action >= self.num_actions)))
            raise ValueError(
                f"{self.name}: action must lie in [0, {self.num_actions - 1}], "
                f"got {action[lane]} in lane {lane}"
            )
        if not self.is_playing.all():
            lane = int(np.argmin(self.is_playing))
            raise ValueError(f"{self.name}: lane {lane} has no running episode, reset it first")
        return action.astype(np.int64, copy=False)

    def check_lane(self, lane: int) -> None:
        """Refuse a lane that is not there or was never reset."""
        if not 0 <= lane < self.num_lanes:
            raise ValueError(f"{self.name}: lane must lie in [0, {self.num_lanes - 1}], got {lane}")
        self.check_begun()

    def check_begun(self) -> None:
        """Refuse to show or save lanes before their first episode."""
        if not self._was_reset:
            raise ValueError(f"{self.name}: reset all lanes first")

    def begin(self, lanes: np.ndarray) -> None:
        """Note that episodes began in the lanes of the mask."""
        self.is_playing |= lanes
        self._was_reset = True

    def end(self, ended: np.ndarray) -> None:
        """Note that episodes ended in the lanes of the mask."""
        self.is_playing &= ~ended

    def restore(self, is_playing: np.ndarray) -> None:
        """Take over which lanes have a running episode."""
        self.is_playing = is_playing.copy()
        self._was_reset = True
