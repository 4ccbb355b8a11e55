"""Tiny tasks with known best returns, for tests and demonstrations. They are not in the paper."""

from collections.abc import Callable

import numpy as np

from agent57.envs.rules import Rules, random_words
from agent57.types import EnvSpec

CELL = 16  # pixels per side of a cell in the picture


def _vector_spec(name: str, length: int, num_actions: int) -> EnvSpec:
    return EnvSpec(
        name=name,
        kind="vector",
        observation_shape=(length,),
        observation_dtype="float32",
        num_actions=num_actions,
        frames_per_step=1,
        max_value=1,
    )


def _strip(observation: np.ndarray) -> np.ndarray:
    """Draw a vector as a row of grey cells, [Y, X, 3]."""
    row = (255 * observation).astype(np.uint8)[None, :, None]
    return row.repeat(CELL, axis=0).repeat(CELL, axis=1).repeat(3, axis=2)


class Chain:
    """Exploration: `length` steps to the right earn 1, one step to the left earns 0.1.

    Both ends terminate the episode. The observation is the cell, one-hot. The best return is 1.
    """

    optimal_return = 1.0
    temptation = 0.1

    def __init__(self, length: int = 10) -> None:
        self.max_steps = 4 * length
        self._last = length + 1
        self.spec = _vector_spec("toy/chain", length + 2, 2)

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """Start in the cell to the right of the tempting cell."""
        return np.ones((len(seeds), 1), np.int64)

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Move one cell to the left (action 0) or to the right (action 1)."""
        state = state + 2 * action[:, None] - 1
        cell = state[:, 0]
        reward = np.select([cell == self._last, cell == 0], [1.0, self.temptation], 0.0)
        return state, reward.astype(np.float32), (cell == self._last) | (cell == 0)

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Return the cell, one-hot."""
        return np.eye(self._last + 1, dtype=np.float32)[state[:, 0]]

    def picture(self, state: np.ndarray) -> np.ndarray:
        """Draw the cells in a row."""
        return _strip(self.observe(state[None])[0])


class Cue:
    """Memory: the first observation shows a cue, then come `length` blanks, then a question.

    The action that equals the cue earns 1, the other action -1. Both terminate the episode. The
    observation is the cue, one-hot, and whether the question is asked. The best return is 1.
    Without memory the mean return is 0.
    """

    optimal_return = 1.0

    def __init__(self, length: int = 8) -> None:
        self.max_steps = length + 2
        self._question = length + 1
        self.spec = _vector_spec("toy/cue", 3, 2)

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """Draw the cue, 0 or 1; the state also holds the number of steps so far."""
        cue = random_words(seeds, 1)[:, 0] % np.uint64(2)
        return np.stack([cue.astype(np.int64), np.zeros(len(seeds), np.int64)], axis=1)

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Advance one step whatever the action is; at the question the action is the answer."""
        is_asked = state[:, 1] == self._question
        answer = np.where(action == state[:, 0], 1.0, -1.0)
        reward = np.where(is_asked, answer, 0.0).astype(np.float32)
        return state + np.array([0, 1]), reward, is_asked

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Return the cue first, then zeros, then the question."""
        cue, num_steps = state[:, 0], state[:, 1]
        shown = np.stack(
            [
                (num_steps == 0) & (cue == 0),
                (num_steps == 0) & (cue == 1),
                num_steps == self._question,
            ],
            axis=1,
        )
        return shown.astype(np.float32)

    def picture(self, state: np.ndarray) -> np.ndarray:
        """Draw the observation as a row of cells."""
        return _strip(self.observe(state[None])[0])


class Bandit:
    """Contextual bandit: the observation shows one of `contexts` contexts, one-hot.

    The action with the number of the context earns 1, any other earns 0. An episode has one step.
    The best return is 1; random actions get 1 / contexts on average.
    """

    optimal_return = 1.0
    max_steps = 1

    def __init__(self, contexts: int = 3) -> None:
        self._contexts = contexts
        self.spec = _vector_spec("toy/bandit", contexts, contexts)

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """Draw the context."""
        word = random_words(seeds, 1) % np.uint64(self._contexts)
        return word.astype(np.int64)

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reward the action, and terminate the episode."""
        reward = (action == state[:, 0]).astype(np.float32)
        return state.copy(), reward, np.ones(len(state), bool)

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Return the context, one-hot."""
        return np.eye(self._contexts, dtype=np.float32)[state[:, 0]]

    def picture(self, state: np.ndarray) -> np.ndarray:
        """Draw the context as a row of cells."""
        return _strip(self.observe(state[None])[0])


class Discounting:
    """Patience: the first action picks one of three chains. Chains that pay later pay more.

    Action a at the first step picks the chain that pays `pays[a]` at step `delays[a]`. Later every
    action except a costs `slip`, so that there is one best action and Retrace's traces last.
    Every episode has `max_steps` steps, so no chain is more novel than another. The observation is
    the chain, one-hot (the first entry means none yet), whether it has paid, and the time. The best
    return is 12.5. The best chain depends on gamma, by its discounted pay * gamma^(delay - 1):

        gamma     10.0 at 5   11.0 at 30   12.5 at 100
        0.99          9.606        8.219         4.622
        0.997         9.881       10.082         9.284
        0.9999        9.996       10.968        12.377

    The last chain is best from gamma 0.99818 on, where gamma^70 = 11 / 12.5.
    """

    delays = (5, 30, 100)
    pays = (10.0, 11.0, 12.5)
    slip = 0.5
    optimal_return = 12.5
    max_steps = 100

    def __init__(self) -> None:
        self.spec = _vector_spec("toy/discounting", len(self.delays) + 3, len(self.delays))

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """Return the state without a chain (-1) and with 0 steps so far."""
        return np.tile(np.array([-1, 0]), (len(seeds), 1))

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Advance one step along the chain that was picked."""
        chain = np.where(state[:, 0] < 0, action, state[:, 0])
        num_steps = state[:, 1] + 1
        is_due = num_steps == np.array(self.delays)[chain]
        pay = np.where(is_due, np.array(self.pays)[chain], 0.0)
        reward = (pay - self.slip * (action != chain)).astype(np.float32)
        return np.stack([chain, num_steps], axis=1), reward, num_steps == self.max_steps

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Return the chain, whether it has paid, and the time."""
        chain, num_steps = state[:, 0], state[:, 1]
        shown = chain[:, None] == np.arange(-1, len(self.delays))
        is_paid = (chain >= 0) & (num_steps >= np.array(self.delays)[chain])
        columns = [shown, is_paid[:, None], num_steps[:, None] / self.max_steps]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def picture(self, state: np.ndarray) -> np.ndarray:
        """Draw the observation as a row of cells."""
        return _strip(self.observe(state[None])[0])


class Mine:
    """Exploration, then exploitation: every step at the mine, far along a winding corridor, pays.

    Each step that ends at the mine earns `pay`, and each move costs `fare`. So an agent that has
    not found the mine does best by standing still. The corridor goes on behind the mine, which
    tempts an agent that only looks for novelty. No direction leads far. Random steps reach the
    mine, 34 moves away, in one of half a million episodes. An episode has 100 steps. The best
    return is 67 times the pay less 34 fares. The observation is row and column, each one-hot.
    """

    pay = 0.1
    fare = 0.0005
    optimal_return = 67 * pay - 34 * fare
    max_steps = 100
    plan = (
        "A........",
        "########.",
        ".........",
        ".########",
        ".........",
        "########.",
        "....M....",
        ".########",
        ".........",
    )

    def __init__(self) -> None:
        cells = np.array([list(row) for row in self.plan])
        self._size = len(cells)
        self._rock = cells == "#"
        self._first, self._mine = (np.argwhere(cells == letter)[0] for letter in "AM")
        self.spec = _vector_spec("toy/mine", 2 * self._size, 4)

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """Return the row and column of the corridor's beginning."""
        return np.tile(self._first, (len(seeds), 1))

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Move one cell up, down, left or right, unless there is rock."""
        step = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])[action]
        there = np.clip(state + step, 0, self._size - 1)
        is_rock = self._rock[there[:, 0], there[:, 1]]
        there = np.where(is_rock[:, None], state, there)
        is_moved = (there != state).any(axis=1)
        reward = self.pay * (there == self._mine).all(axis=1) - self.fare * is_moved
        return there, reward.astype(np.float32), np.zeros(len(state), bool)

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Return the row and the column, each one-hot."""
        return np.eye(self._size, dtype=np.float32)[state].reshape(len(state), -1)

    def picture(self, state: np.ndarray) -> np.ndarray:
        """Draw the corridor from above: the agent blue, rock red, the mine green."""
        colours = np.zeros((self._size, self._size, 3), np.uint8)
        colours[self._rock, 0] = 255
        colours[(*self._mine, 1)] = 255
        colours[(*state, 2)] = 255
        return colours.repeat(CELL, axis=0).repeat(CELL, axis=1)


TOYS: dict[str, Callable[[], Rules]] = {
    "toy/chain": Chain,
    "toy/cue": Cue,
    "toy/bandit": Bandit,
    "toy/discounting": Discounting,
    "toy/mine": Mine,
}
