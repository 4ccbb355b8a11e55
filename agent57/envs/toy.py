"""Tiny tasks with known best returns, for tests and demonstrations. Nothing of the paper."""

from collections.abc import Callable

import numpy as np

from agent57.envs.rules import Rules, random_words
from agent57.types import EnvSpec

CELL = 16  # pixels along a number of the picture


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
    """A vector as a row of grey cells, [Y, X, 3]."""
    row = (255 * observation).astype(np.uint8)[None, :, None]
    return row.repeat(CELL, axis=0).repeat(CELL, axis=1).repeat(3, axis=2)


class Chain:
    """Exploration: `length` steps to the right earn 1, one step to the left 0.1; both terminate.

    The observation is the cell, one-hot. Best return 1.
    """

    optimal_return = 1.0
    temptation = 0.1

    def __init__(self, length: int = 10) -> None:
        self.max_steps = 4 * length
        self._last = length + 1
        self.spec = _vector_spec("toy/chain", length + 2, 2)

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """Right of the tempting cell."""
        return np.ones((len(seeds), 1), np.int64)

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One cell to the left (0) or to the right (1)."""
        state = state + 2 * action[:, None] - 1
        cell = state[:, 0]
        reward = np.select([cell == self._last, cell == 0], [1.0, self.temptation], 0.0)
        return state, reward.astype(np.float32), (cell == self._last) | (cell == 0)

    def observe(self, state: np.ndarray) -> np.ndarray:
        """The cell, one-hot."""
        return np.eye(self._last + 1, dtype=np.float32)[state[:, 0]]

    def picture(self, state: np.ndarray) -> np.ndarray:
        """The cells in a row."""
        return _strip(self.observe(state[None])[0])


class Cue:
    """Memory: the first observation shows a cue, `length` blank ones follow, then a question.

    The answer that equals the cue earns 1, the other -1; both terminate. The observation is the cue
    one-hot, and whether the question is asked. Best return 1; without memory 0 on average.
    """

    optimal_return = 1.0

    def __init__(self, length: int = 8) -> None:
        self.max_steps = length + 2
        self._question = length + 1
        self.spec = _vector_spec("toy/cue", 3, 2)

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """A cue, 0 or 1, and the number of steps so far."""
        cue = random_words(seeds, 1)[:, 0] % np.uint64(2)
        return np.stack([cue.astype(np.int64), np.zeros(len(seeds), np.int64)], axis=1)

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """On along the corridor whatever the action is; at its end it is the answer."""
        is_asked = state[:, 1] == self._question
        answer = np.where(action == state[:, 0], 1.0, -1.0)
        reward = np.where(is_asked, answer, 0.0).astype(np.float32)
        return state + np.array([0, 1]), reward, is_asked

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Cue, blanks, question."""
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
        """What is shown."""
        return _strip(self.observe(state[None])[0])


class Bandit:
    """One step: the observation shows one of `contexts`, one-hot; the action of its number earns 1.

    Any other earns 0. Best return 1, at random 1 / contexts.
    """

    optimal_return = 1.0
    max_steps = 1

    def __init__(self, contexts: int = 3) -> None:
        self._contexts = contexts
        self.spec = _vector_spec("toy/bandit", contexts, contexts)

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """A context."""
        word = random_words(seeds, 1) % np.uint64(self._contexts)
        return word.astype(np.int64)

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The reward, and the end."""
        reward = (action == state[:, 0]).astype(np.float32)
        return state.copy(), reward, np.ones(len(state), bool)

    def observe(self, state: np.ndarray) -> np.ndarray:
        """The context, one-hot."""
        return np.eye(self._contexts, dtype=np.float32)[state[:, 0]]

    def picture(self, state: np.ndarray) -> np.ndarray:
        """The context."""
        return _strip(self.observe(state[None])[0])


class Discounting:
    """Patience: the first action picks one of three chains, of which the later one pays more.

    Action a at the first step picks the chain that pays `pays[a]` with step `delays[a]`; after that
    every other action costs `slip`, so that there is one best action and Retrace's traces last.
    Every episode has `max_steps` steps, so no chain is more novel than another. The observation is
    the chain one-hot (first: none yet), whether it has paid, and the time. Best return 12.5.
    Discounted, pay * gamma^(delay - 1), each gamma has another best chain:

        gamma     10.0 at 5   11.0 at 30   12.5 at 100
        0.99          9.606        8.219         4.622
        0.997         9.881       10.082         9.284
        0.9999        9.996       10.968        12.377

    and the last chain is best from gamma 0.99818 on, where gamma^70 = 11 / 12.5.
    """

    delays = (5, 30, 100)
    pays = (10.0, 11.0, 12.5)
    slip = 0.5
    optimal_return = 12.5
    max_steps = 100

    def __init__(self) -> None:
        self.spec = _vector_spec("toy/discounting", len(self.delays) + 3, len(self.delays))

    def start(self, seeds: np.ndarray) -> np.ndarray:
        """No chain yet (-1), and the number of steps so far."""
        return np.tile(np.array([-1, 0]), (len(seeds), 1))

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """On along the chain that was picked."""
        chain = np.where(state[:, 0] < 0, action, state[:, 0])
        num_steps = state[:, 1] + 1
        is_due = num_steps == np.array(self.delays)[chain]
        pay = np.where(is_due, np.array(self.pays)[chain], 0.0)
        reward = (pay - self.slip * (action != chain)).astype(np.float32)
        return np.stack([chain, num_steps], axis=1), reward, num_steps == self.max_steps

    def observe(self, state: np.ndarray) -> np.ndarray:
        """The chain, whether it has paid, the time."""
        chain, num_steps = state[:, 0], state[:, 1]
        shown = chain[:, None] == np.arange(-1, len(self.delays))
        is_paid = (chain >= 0) & (num_steps >= np.array(self.delays)[chain])
        columns = [shown, is_paid[:, None], num_steps[:, None] / self.max_steps]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def picture(self, state: np.ndarray) -> np.ndarray:
        """What is shown."""
        return _strip(self.observe(state[None])[0])


class Mine:
    """Exploration, then exploitation: far along a winding corridor every step at the mine pays.

    Each step that ends at the mine earns `pay`, each move costs `fare`, so whoever has not found
    the mine had better stand still; the corridor goes on behind it, for those who look for news.
    No direction leads far, and steps at random reach the mine, 34 moves away, in one episode of
    half a million. An episode has 100 steps; the best return is 67 times the pay less 34 fares.
    The observation is the row and the column, each one-hot.
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
        """Row and column of the corridor's beginning."""
        return np.tile(self._first, (len(seeds), 1))

    def move(
        self, state: np.ndarray, action: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One cell up, down, left or right, unless there is rock."""
        step = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])[action]
        there = np.clip(state + step, 0, self._size - 1)
        is_rock = self._rock[there[:, 0], there[:, 1]]
        there = np.where(is_rock[:, None], state, there)
        is_moved = (there != state).any(axis=1)
        reward = self.pay * (there == self._mine).all(axis=1) - self.fare * is_moved
        return there, reward.astype(np.float32), np.zeros(len(state), bool)

    def observe(self, state: np.ndarray) -> np.ndarray:
        """Row and column."""
        return np.eye(self._size, dtype=np.float32)[state].reshape(len(state), -1)

    def picture(self, state: np.ndarray) -> np.ndarray:
        """The corridor from above: the agent blue, rock red, the mine green."""
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
