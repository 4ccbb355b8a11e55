import dataclasses
import io
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

from agent57.config import CuriosityConfig
from agent57.curiosity.episodic import ROWS_PER_THREAD, EpisodicMemory
from tests.ops import golden

CONFIG = CuriosityConfig(memory_size=200)


class MemoryByDefinition:
    """One lane of NGU's algorithm 1, with lists."""

    def __init__(self, config: CuriosityConfig) -> None:
        self.config, self.memory, self.distances = config, [], []

    def novelty(self, embedding: np.ndarray) -> float:
        config = self.config
        every = sorted(float(((embedding - m) ** 2).sum()) for m in self.memory)
        nearest = every[: config.neighbours]
        self.add(embedding)
        if not nearest:
            return 0.0
        self.distances += nearest
        mean = sum(self.distances) / len(self.distances)
        total = 0.0
        for distance_sq in nearest:
            relative = max(distance_sq / mean - config.cluster_distance, 0.0) if mean else 0.0
            total += config.kernel_epsilon / (relative + config.kernel_epsilon)
        similarity = total**0.5 + config.pseudo_count
        return 0.0 if similarity > config.max_similarity else 1 / similarity

    def add(self, embedding: np.ndarray) -> None:
        self.memory = [*self.memory, embedding][-self.config.memory_size :]


def random_walk(steps: int, lanes: int, size: int, seed: int = 0) -> np.ndarray:
    steps_taken = np.random.default_rng(seed).normal(size=(steps, lanes, size))
    return steps_taken.cumsum(0).astype(np.float32)


@pytest.mark.parametrize("size", [1, 3, 32, 33])
@pytest.mark.parametrize(("neighbours", "slots"), [(1, 50), (10, 50), (10, 12)])
def test_episodes_of_several_lanes_by_definition(size: int, neighbours: int, slots: int) -> None:
    config = CuriosityConfig(neighbours=neighbours, memory_size=slots)
    memory, lanes = EpisodicMemory(3, size, config), [MemoryByDefinition(config) for _ in range(3)]
    rng = np.random.default_rng(1)
    for embedding in random_walk(70, 3, size):
        ended = rng.random(3) < 0.03
        memory.reset(ended)
        memory.add(embedding - 1, ended)
        for lane in np.flatnonzero(ended):
            lanes[lane].memory = []
            lanes[lane].add(embedding[lane] - 1)
        expected = [lane.novelty(x) for lane, x in zip(lanes, embedding, strict=True)]
        np.testing.assert_allclose(memory.novelty(embedding), expected, rtol=2e-4)


@pytest.mark.parametrize("name", ["novelty", "novelty_full_memory"])
def test_a_walk_equals_rlax(name: str) -> None:
    case = golden.load(name)
    config = CuriosityConfig(memory_size=int(case["slots"]))
    memory = EpisodicMemory(1, case["walk"].shape[1], config)
    for embedding in case["first"]:
        memory.add(embedding[None], np.array([True]))
    novelty = [memory.novelty(embedding[None])[0] for embedding in case["walk"]]
    np.testing.assert_allclose(novelty, case["novelty"], rtol=1e-4)


def test_three_steps_by_hand() -> None:
    memory = EpisodicMemory(1, 1, CONFIG)
    memory.add(np.array([[0.0]]), np.array([True]))

    def score(x: float) -> float:
        return float(memory.novelty(np.array([[x]], dtype=np.float32))[0])

    def kernel(relative: float) -> float:
        return 1e-4 / (max(relative - 8e-3, 0) + 1e-4)

    # To 0 the squared distance is 4, the mean is then 4.
    assert score(2.0) == pytest.approx(1 / (kernel(1) ** 0.5 + 1e-3), rel=1e-5)
    # To 2 and 0 they are 1 and 9; the mean of 4, 1 and 9 is 14 / 3.
    similarity = (kernel(3 / 14) + kernel(27 / 14)) ** 0.5 + 1e-3
    assert score(3.0) == pytest.approx(1 / similarity, rel=1e-5)
    # To 3, 2 and 0 they are 0, 1 and 9; the mean of all six is 24 / 6.
    similarity = (kernel(0) + kernel(1 / 4) + kernel(9 / 4)) ** 0.5 + 1e-3
    assert score(3.0) == pytest.approx(1 / similarity, rel=1e-5)


def test_the_first_state_of_an_episode_earns_nothing() -> None:
    memory = EpisodicMemory(2, 4, CONFIG)
    assert memory.novelty(np.ones((2, 4), np.float32)).tolist() == [0.0, 0.0]


def test_regression_nothing_earned_until_k_states_are_known() -> None:
    memory = EpisodicMemory(1, 4, CONFIG)
    scores = [memory.novelty(embedding)[0] for embedding in random_walk(4, 1, 4)]
    assert scores[0] == 0
    assert min(scores[1:]) > 1


def test_a_state_is_not_its_own_neighbour() -> None:
    # If a state were remembered before it is scored, its nearest distance would be 0.
    memory = EpisodicMemory(1, 2, CuriosityConfig(neighbours=1))
    memory.add(np.zeros((1, 2)), np.array([True]))
    assert memory.novelty(np.ones((1, 2), np.float32))[0] > 30


def test_reset_forgets_the_episode_but_keeps_the_scale() -> None:
    walk = random_walk(30, 2, 5)
    memory, fresh = EpisodicMemory(2, 5, CONFIG), EpisodicMemory(2, 5, CONFIG)
    for embedding in 10 * walk:
        memory.novelty(embedding)
    memory.reset(np.array([True, False]))
    assert memory.novelty(walk[0])[0] == 0.0
    fresh.novelty(walk[0])
    # Small steps look familiar on the scale of earlier large steps.
    assert 0 < memory.novelty(walk[1])[0] < fresh.novelty(walk[1])[0]


def test_reset_leaves_the_other_lanes_alone() -> None:
    walk = random_walk(20, 2, 5)
    one, other = EpisodicMemory(2, 5, CONFIG), EpisodicMemory(2, 5, CONFIG)
    for embedding in walk[:-1]:
        one.novelty(embedding)
        other.novelty(embedding)
    one.reset(np.array([True, False]))
    assert one.novelty(walk[-1])[1] == other.novelty(walk[-1])[1]


def test_regression_lanes_share_nothing() -> None:
    walk = random_walk(40, 4, 8)
    together = EpisodicMemory(4, 8, CONFIG)
    alone = [EpisodicMemory(1, 8, CONFIG) for _ in range(4)]
    for embedding in walk:
        expected = [lane.novelty(embedding[[i]])[0] for i, lane in enumerate(alone)]
        assert together.novelty(embedding).tolist() == expected


def test_regression_mean_of_the_query_alone() -> None:
    # Measured by the mean of its own distances, a far state would look like any other.
    memory = EpisodicMemory(1, 3, CONFIG)
    for embedding in np.random.default_rng(0).normal(size=(50, 1, 3)).astype(np.float32):
        usual = memory.novelty(embedding)[0]
    assert memory.novelty(np.full((1, 3), 100.0, np.float32))[0] > 3 * usual


def test_an_identical_state_is_the_least_novel() -> None:
    memory = EpisodicMemory(1, 3, CONFIG)
    for embedding in random_walk(20, 1, 3):
        memory.novelty(embedding)
    for _ in range(10):
        memory.novelty(embedding)
    assert memory.novelty(embedding)[0] == pytest.approx(1 / (10**0.5 + 1e-3), rel=1e-5)


def test_a_constant_embedding_does_not_divide_by_zero() -> None:
    memory = EpisodicMemory(1, 3, CONFIG)
    with np.errstate(all="raise"):
        scores = [memory.novelty(np.ones((1, 3), np.float32))[0] for _ in range(3)]
    np.testing.assert_allclose(scores, [0.0, 1 / 1.001, 1 / (2**0.5 + 1e-3)], rtol=1e-6)


def test_full_memory_drops_the_oldest() -> None:
    config = CuriosityConfig(neighbours=1, memory_size=3)
    memory = EpisodicMemory(1, 1, config)
    for x in (0.0, 10.0, 20.0):
        memory.novelty(np.array([[x]], np.float32))
    memory.novelty(np.array([[30.0]], np.float32))  # replaces 0
    assert memory.novelty(np.array([[0.0]], np.float32))[0] > 10
    assert memory.novelty(np.array([[30.0]], np.float32))[0] < 1


def test_moving_all_embeddings_changes_nothing_by_law() -> None:
    walk = np.round(8 * random_walk(60, 2, 4)) / 8  # so that moving is exact in float32
    here, there = EpisodicMemory(2, 4, CONFIG), EpisodicMemory(2, 4, CONFIG)
    for embedding in walk:
        assert here.novelty(embedding).tolist() == there.novelty(embedding + 64).tolist()


def test_result_does_not_depend_on_the_number_of_threads_by_law() -> None:
    # Long episodes, so that the search is really shared among the threads.
    rng, lengths = np.random.default_rng(0), [30_000, 0, 29_999, 60_000]
    assert sum(lengths) > ROWS_PER_THREAD
    state = {
        "embedding": torch.from_numpy(rng.normal(size=(sum(lengths), 5)).astype(np.float32)),
        "num_added": torch.tensor(lengths),
        "distance_sum": torch.ones(4, dtype=torch.float64),
        "distance_count": torch.ones(4, dtype=torch.int64),
    }
    queries = rng.normal(size=(3, 4, 5)).astype(np.float32)
    results = []
    for num_threads in (1, 2, 3, 8):
        memory = EpisodicMemory(4, 5, CuriosityConfig(memory_size=60_000), num_threads)
        memory.load_state_dict(state)
        results.append(np.stack([memory.novelty(embedding) for embedding in queries]))
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    assert (results[0][0] > 0).tolist() == [True, False, True, True]


LONG = 20_000  # states


def long_memory(length: int) -> EpisodicMemory:
    """Return a lane's memory after an episode of this length, on one thread, search compiled."""
    memory = EpisodicMemory(1, 32, CuriosityConfig(memory_size=LONG + 2), num_threads=1)
    rng = np.random.default_rng(0)
    state = {
        "embedding": torch.from_numpy(rng.normal(size=(length, 32)).astype(np.float32)),
        "num_added": torch.tensor([length]),
        "distance_sum": torch.ones(1, dtype=torch.float64),
        "distance_count": torch.ones(1, dtype=torch.int64),
    }
    memory.load_state_dict(state)
    memory.novelty(np.ones((1, 32), np.float32))
    return memory


def lines_run(memory: EpisodicMemory) -> int:
    """Count the lines of Python that one query runs."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += 1
        return trace

    query, tracer = np.zeros((1, 32), np.float32), sys.gettrace()
    sys.settrace(trace)
    try:
        memory.novelty(query)
    finally:
        sys.settrace(tracer)
    return count


def test_regression_a_python_loop_over_the_memory() -> None:
    short, long = lines_run(long_memory(50)), lines_run(long_memory(LONG))
    assert 0 < long < short + LONG / 10  # far fewer than one line per state in memory


def test_regression_a_memory_copied_for_every_query() -> None:
    memory, query = long_memory(LONG), np.zeros((1, 32), np.float32)
    tracemalloc.start()
    try:
        memory.novelty(query)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * LONG  # less than four bytes per state in memory, so there is no copy


def test_memories_of_two_threads_do_not_disturb_each_other() -> None:
    walk = random_walk(150, 4, 16)

    def play(_: int) -> np.ndarray:
        memory = EpisodicMemory(4, 16, CONFIG)
        return np.stack([memory.novelty(embedding) for embedding in walk])

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(play, range(3)))
    for result in results:
        np.testing.assert_array_equal(result, play(0))


def test_the_embeddings_given_are_copied() -> None:
    memory, embedding = EpisodicMemory(1, 2, CONFIG), np.zeros((1, 2), np.float32)
    memory.novelty(embedding)
    embedding += 5
    assert memory.novelty(np.ones((1, 2), np.float32))[0] > 1


def test_a_broken_embedding_is_an_error() -> None:
    memory = EpisodicMemory(1, 2, CONFIG)
    with pytest.raises(FloatingPointError, match="not finite"):
        memory.novelty(np.array([[0.0, np.nan]], np.float32))


@pytest.mark.parametrize("slots", [11, 200])
def test_continues_from_its_saved_state(slots: int) -> None:
    config = dataclasses.replace(CONFIG, memory_size=slots)
    walk = random_walk(60, 3, 6)
    memory = EpisodicMemory(3, 6, config)
    for embedding in walk[:30]:
        memory.novelty(embedding)
    memory.reset(np.array([False, True, False]))
    memory.novelty(walk[30])
    memory.reset(np.array([False, False, True]))  # an empty lane, the last one

    file = io.BytesIO()
    torch.save(memory.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert len(state["embedding"]) == min(31, slots) + 1  # only the filled part
    resumed = EpisodicMemory(3, 6, config)
    resumed.novelty(walk[0])  # is overwritten
    resumed.load_state_dict(state)
    for embedding in walk[31:]:
        assert resumed.novelty(embedding).tolist() == memory.novelty(embedding).tolist()


def test_saved_state_does_not_change_with_the_memory() -> None:
    memory = EpisodicMemory(2, 3, CONFIG)
    memory.novelty(np.ones((2, 3), np.float32))
    state = memory.state_dict()
    saved = {name: tensor.clone() for name, tensor in state.items()}
    for embedding in random_walk(5, 2, 3):
        memory.novelty(embedding)
    for name, tensor in state.items():
        torch.testing.assert_close(tensor, saved[name])
