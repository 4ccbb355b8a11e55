"""Episodic memory: how novel a state is within its episode (NGU, algorithm 1)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import torch
from jaxtyping import Float, Float32

from agent57.config import CuriosityConfig

ROWS_PER_THREAD = 100_000  # take a few hundred microseconds, which justifies waking a thread


def least_novelty(config: CuriosityConfig) -> np.float32:
    """Return 1 / s(0): the novelty of a state with K neighbours within the cluster distance.

    Only a reward of 0 is smaller. It needs s > s_m, which cannot happen if s_m >= sqrt(K) + c.
    """
    return np.float32(1 / (np.sqrt(config.neighbours) + config.pseudo_count))


def kernel_novelty(
    distance_sq: Float[np.ndarray, "E K"],
    mean_distance_sq: Float[np.ndarray, "E"],
    config: CuriosityConfig,
) -> Float32[np.ndarray, "E"]:
    """Return the novelty of each state from its K nearest memories (NGU, algorithm 1).

        d_k = max(distance_k^2 / d_m^2 - xi, 0)
        s   = sqrt(sum_k eps / (d_k + eps)) + c
        r   = 1 / s, or 0 if s > s_m

    `mean_distance_sq` is the running mean d_m^2, which includes these distances. A missing
    neighbour is infinitely far away and adds nothing. A state without any memory to compare with
    gets 0, where the bare formula would give 1 / c, more than to any other state.
    """
    scale = np.where(mean_distance_sq > 0, mean_distance_sq, 1.0).astype(np.float64)
    relative = np.maximum(distance_sq / scale[:, None] - config.cluster_distance, 0.0)
    kernel = config.kernel_epsilon / (relative + config.kernel_epsilon)
    similarity = np.sqrt(kernel.sum(1)) + config.pseudo_count
    is_known = np.isfinite(distance_sq).any(1) & (similarity <= config.max_similarity)
    return np.where(is_known, 1 / similarity, 0.0).astype(np.float32)


class EpisodicMemory:
    """The embeddings of each lane's running episode, and the scale of their distances.

    Each lane has a ring of embeddings, wiped when an episode ends. Each lane also has d_m^2, the
    mean squared distance to neighbours over all its episodes.

    At most `num_threads` threads search long memories; the default is torch's number of threads.
    They are plain threads that sleep when idle. OpenMP threads spin, and stall when cores are busy.
    """

    def __init__(
        self,
        num_lanes: int,
        embedding_size: int,
        config: CuriosityConfig,
        num_threads: int | None = None,
    ) -> None:
        self._config = config
        self._num_threads = num_threads or torch.get_num_threads()
        self._pool = ThreadPoolExecutor(self._num_threads, "episodic-memory")
        # np.zeros takes no memory until it is written to; the pages come zeroed when touched.
        self._memory = np.zeros((num_lanes, config.memory_size, embedding_size), dtype=np.float32)
        self._num_added = np.zeros(num_lanes, dtype=np.int64)  # in this episode
        self._distance_sum = np.zeros(num_lanes, dtype=np.float64)  # of squares
        self._distance_count = np.zeros(num_lanes, dtype=np.int64)

    def novelty(self, embedding: np.ndarray) -> np.ndarray:
        """Return the novelty [E] of the lanes' states [E, D], then remember the states."""
        embedding = np.ascontiguousarray(embedding, dtype=np.float32)
        if not np.isfinite(embedding).all():
            raise FloatingPointError("the embedding network returned a value that is not finite")
        distance_sq = self._nearest(embedding)
        is_found = np.isfinite(distance_sq)
        self._distance_sum += np.where(is_found, distance_sq, 0.0).sum(1, dtype=np.float64)
        self._distance_count += is_found.sum(1)
        novelty = kernel_novelty(distance_sq, self.mean_distance_sq, self._config)
        self.add(embedding, np.ones(len(embedding), dtype=bool))
        return novelty

    def add(self, embedding: np.ndarray, mask: np.ndarray) -> None:
        """Remember the states of the lanes in `mask` [E] without scoring: an episode's first."""
        lanes = np.flatnonzero(mask)
        self._memory[lanes, self._num_added[lanes] % self._config.memory_size] = embedding[lanes]
        self._num_added[lanes] += 1

    def reset(self, mask: np.ndarray) -> None:
        """Forget the episodes of the lanes in `mask` [E]."""
        self._num_added[mask] = 0

    def _nearest(self, embedding: np.ndarray) -> np.ndarray:
        """Return squared distances [E, K] to the nearest memories; inf where a lane has fewer."""
        num_filled = self._num_filled()
        nearest = np.full((len(embedding), self._config.neighbours), np.inf, dtype=np.float32)
        num_parts = min(self._num_threads, 1 + int(num_filled.sum()) // ROWS_PER_THREAD)
        search = (embedding, self._memory, num_filled, nearest, num_parts)
        others = [self._pool.submit(_search, *search, part) for part in range(1, num_parts)]
        _search(*search, 0)
        for other in others:
            other.result()
        return nearest

    def _num_filled(self) -> np.ndarray:
        return np.minimum(self._num_added, self._config.memory_size)

    @property
    def fill(self) -> np.ndarray:
        """Share of each lane's memory that is taken [E]. A full memory overwrites the oldest."""
        return self._num_filled() / self._config.memory_size

    @property
    def mean_distance_sq(self) -> np.ndarray:
        """Mean squared distance d_m^2 to the neighbours so far, of each lane [E]."""
        return self._distance_sum / np.maximum(self._distance_count, 1)

    def lasting_state(self) -> dict[str, Any]:
        """Return the state that outlives an episode: the running means."""
        return {
            "distance_sum": torch.from_numpy(self._distance_sum.copy()),
            "distance_count": torch.from_numpy(self._distance_count.copy()),
        }

    def load_lasting_state(self, state: dict[str, Any]) -> None:
        """Go on from a `lasting_state`, with no running episode."""
        self._num_added[:] = 0
        self._distance_sum[:] = state["distance_sum"].numpy()
        self._distance_count[:] = state["distance_count"].numpy()

    def state_dict(self) -> dict[str, Any]:
        """Return the running episodes, without empty slots, and the running means."""
        filled = [memory[:n] for memory, n in zip(self._memory, self._num_filled(), strict=True)]
        return {
            "embedding": torch.from_numpy(np.concatenate(filled)),
            "num_added": torch.from_numpy(self._num_added.copy()),
            **self.lasting_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self.load_lasting_state(state)
        self._num_added[:] = state["num_added"].numpy()
        filled = np.split(state["embedding"].numpy(), np.cumsum(self._num_filled())[:-1])
        for memory, rows in zip(self._memory, filled, strict=True):
            memory[: len(rows)] = rows


# These flags let the sum be reordered and so vectorised; infinities keep their meaning.
@numba.njit(fastmath={"reassoc", "contract", "nsz"}, nogil=True, cache=True)
def _distance_sq(a: np.ndarray, b: np.ndarray) -> np.float32:
    total = np.float32(0.0)
    for i in range(len(a)):
        difference = a[i] - b[i]
        total += difference * difference
    return total


@numba.njit(nogil=True, cache=True)
def _search(
    query: np.ndarray,
    memory: np.ndarray,
    num_filled: np.ndarray,
    nearest: np.ndarray,
    num_parts: int,
    part: int,
) -> None:
    """Write the K smallest squared distances of every `num_parts`-th lane to `nearest`, ascending.

    query [E, D], memory [E, M, D], num_filled [E], nearest [E, K] infinite at first.
    """
    last = nearest.shape[1] - 1
    for lane in range(part, len(query), num_parts):
        best = nearest[lane]
        for slot in range(num_filled[lane]):
            distance_sq = _distance_sq(query[lane], memory[lane, slot])
            if distance_sq < best[last]:
                place = last
                while place > 0 and best[place - 1] > distance_sq:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = distance_sq
