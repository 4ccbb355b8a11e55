"""Streams of random numbers depend on role, lane and counter, and not on other lanes."""

import numpy as np
import pytest

from agent57.seeds import LaneUniforms, Role, generator, sequence


def draws(first_lane: int, num_lanes: int, num_steps: int, seed: int = 0) -> np.ndarray:
    uniforms = LaneUniforms(seed, Role.ACTOR_ACTIONS, first_lane, num_lanes)
    return np.stack([uniforms.next().copy() for _ in range(num_steps)])


def test_a_lane_draws_the_same_in_any_company_by_law() -> None:
    together = draws(0, 5, 1100)  # over the edge of a page
    split = np.concatenate([draws(0, 2, 1100), draws(2, 3, 1100)], axis=1)
    assert np.array_equal(together, split)


def test_lanes_seeds_roles_and_counters_differ() -> None:
    numbers = [
        generator(seed, role, *counters).random()
        for seed in (0, 1)
        for role in Role
        for counters in ((), (0,), (1,), (0, 1), (1, 0))
    ]
    assert len(set(numbers)) == len(numbers)


def test_pages_of_a_stream_differ() -> None:
    uniforms = draws(0, 2, 3 * LaneUniforms.PAGE)
    assert len(np.unique(uniforms)) == uniforms.size


def test_numbers_are_uniform() -> None:
    uniforms = draws(0, 4, 2000)
    assert uniforms.min() >= 0
    assert uniforms.max() < 1
    np.testing.assert_allclose(uniforms.mean((0, 2)), 0.5, atol=0.03)
    correlation = np.corrcoef(uniforms[:, :, 0].T)
    np.testing.assert_allclose(correlation, np.eye(4), atol=0.08)


@pytest.mark.parametrize(
    "num_before", [0, 1, LaneUniforms.PAGE - 1, LaneUniforms.PAGE, LaneUniforms.PAGE + 3]
)
def test_continues_from_its_saved_state(num_before: int) -> None:
    uniforms = LaneUniforms(0, Role.ACTOR_ACTIONS, 2, 3)
    for _ in range(num_before):
        uniforms.next()
    other = LaneUniforms(0, Role.ACTOR_ACTIONS, 2, 3)
    other.next()
    other.load_state_dict(uniforms.state_dict())
    for _ in range(5):
        assert np.array_equal(uniforms.next(), other.next())


def test_roles_keep_their_numbers() -> None:
    # A run that is resumed by a later version must draw the same numbers.
    names = [
        "NETWORKS", "REPLAY", "ACTOR_EPISODES", "ACTOR_ACTIONS", "ACTOR_BANDIT",
        "EVALUATOR_EPISODES", "EVALUATOR_ACTIONS", "EVALUATOR_BANDIT",
    ]  # fmt: skip
    assert [Role(i).name for i in range(8)] == names


def test_a_seed_is_part_of_the_root() -> None:
    states = [sequence(seed, Role.NETWORKS).generate_state(1)[0] for seed in range(20)]
    assert len(set(states)) == 20
