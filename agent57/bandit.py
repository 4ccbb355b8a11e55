"""The meta-controller: chooses the arm of the family that plays the next episode.

Each lane of an actor has its own controller, because lanes differ in epsilon. All lanes of the
evaluator share one.
"""

from collections import deque
from typing import Any

import numpy as np
import torch

from agent57.config import ControllerConfig
from agent57.own_parts import ArmController, own_controller


class Controller:
    """Chooses arms by the returns of the last `window` completed episodes.

    Kind ucb is the paper's simplified sliding-window UCB (appendix D). It plays each arm once.
    Then it draws a random arm with probability epsilon, and otherwise plays

        argmax_a mean(a) + bonus / sqrt(N(a))

    over the window. An arm without an episode in the window comes first. Kind uniform draws a
    random arm. If `only_arm` is given, it is always played, and statistics are still kept.
    """

    def __init__(
        self,
        config: ControllerConfig,
        num_arms: int,
        rng: np.random.Generator,
        only_arm: int | None = None,
        first_arm: int = 0,
    ) -> None:
        """Make a controller whose sweep through all arms begins with `first_arm`."""
        self._config = config
        self._num_arms = num_arms
        self._rng = rng
        self._only_arm = only_arm
        self._first_arm = first_arm
        self._num_selected = 0
        self._episodes: deque[tuple[int, float]] = deque(maxlen=config.window)

    def select(self) -> int:
        """Return the arm to play an episode with."""
        self._num_selected += 1
        if self._only_arm is not None:
            return self._only_arm
        if self._config.kind == "uniform":
            return self._random_arm()
        # The sweep counts selections, not returns: other lanes may still play their episodes.
        if self._num_selected <= self._num_arms:
            return (self._first_arm + self._num_selected - 1) % self._num_arms
        if self._rng.random() < self._config.epsilon:
            return self._random_arm()
        counts, means = self.statistics()
        bonus = self._config.bonus / np.sqrt(np.maximum(counts, 1))
        return int(np.argmax(np.where(counts > 0, means + bonus, np.inf)))

    def observe(self, arm: int, episode_return: float) -> None:
        """Record a completed episode: its arm and its undiscounted extrinsic return."""
        self._episodes.append((arm, episode_return))

    def best(self) -> int:
        """Return the arm with the highest mean return in the window; 0 before any episode ends."""
        counts, means = self.statistics()
        return int(np.argmax(np.where(counts > 0, means, -np.inf)))

    def surest(self) -> int:
        """Return the arm that a trained run plays by default; 0 before any episode ends.

        It has the highest mean return in the window less one standard error, taken from the
        deviation of returns within arms. So an arm with few, lucky episodes does not win.
        """
        counts, means = self.statistics()
        errors = np.array([episode_return - means[arm] for arm, episode_return in self._episodes])
        num_free = max(1, len(errors) - np.count_nonzero(counts))
        deviation = np.sqrt(np.square(errors).sum() / num_free)
        bound = means - deviation / np.sqrt(np.maximum(counts, 1))
        return int(np.argmax(np.where(counts > 0, bound, -np.inf)))

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each arm's number of plays and mean return in the window (0 if not played)."""
        arms = np.array([arm for arm, _ in self._episodes], dtype=np.int64)
        returns = np.array([episode_return for _, episode_return in self._episodes])
        counts = np.bincount(arms, minlength=self._num_arms)
        totals = np.bincount(arms, weights=returns, minlength=self._num_arms)
        return counts, totals / np.maximum(counts, 1)

    def _random_arm(self) -> int:
        return int(self._rng.integers(self._num_arms))

    def state_dict(self) -> dict[str, Any]:
        """Return the window, the position of the sweep and the generator's state."""
        return {
            "arm": torch.tensor([arm for arm, _ in self._episodes], dtype=torch.int64),
            "episode_return": torch.tensor([r for _, r in self._episodes], dtype=torch.float64),
            "num_selected": self._num_selected,
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self._episodes.clear()
        self._episodes.extend(
            zip(state["arm"].tolist(), state["episode_return"].tolist(), strict=True)
        )
        self._num_selected = int(state["num_selected"])
        self._rng.bit_generator.state = state["rng"]


def make_controller(
    config: ControllerConfig, num_arms: int, lane: int, rng: np.random.Generator
) -> ArmController:
    """Make the controller of a lane; `lane` is its index among all lanes of all actors.

    Kind fixed always plays arm `lane` mod N, kind exploit arm 0. Staggered sweeps of adjacent lanes
    begin with adjacent arms, so all arms are played from the start.
    """
    if config.own:
        return own_controller(config.own)(config, num_arms, lane, rng)
    only_arm = {"fixed": lane % num_arms, "exploit": 0}.get(config.kind)
    first_arm = lane % num_arms if config.sweep == "staggered" else 0
    return Controller(config, num_arms, rng, only_arm, first_arm)
