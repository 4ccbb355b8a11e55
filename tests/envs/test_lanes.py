import numpy as np
import pytest

from agent57.envs.lanes import Lanes
from agent57.envs.spec import MAX_SEED

ALL = np.ones(2, bool)


def begun() -> Lanes:
    lanes = Lanes("task", 2, 3)
    lanes.check_reset(ALL, np.zeros(2, np.int64))
    lanes.begin(ALL)
    return lanes


@pytest.mark.parametrize("action", [-1, 3, 1000])
def test_an_action_outside_the_space_is_refused_with_its_lane(action):
    with pytest.raises(ValueError, match=rf"task: action .*\[0, 2\], got {action} in lane 1"):
        begun().check_action(np.array([0, action]))


@pytest.mark.parametrize(
    "action", [np.zeros(3, np.int64), np.zeros((2, 1), np.int64), np.zeros(2), np.zeros(2, bool)]
)
def test_actions_of_another_shape_or_type_are_refused(action):
    with pytest.raises(ValueError, match="one integer for each of 2 lanes"):
        begun().check_action(action)


def test_actions_of_any_integer_type_come_back_as_int64():
    assert begun().check_action(np.array([0, 2], np.uint8)).dtype == np.int64


def test_a_lane_that_ended_cannot_step_before_its_reset():
    lanes = begun()
    lanes.end(np.array([False, True]))
    with pytest.raises(ValueError, match="lane 1 has no running episode"):
        lanes.check_action(np.zeros(2, np.int64))
    lanes.begin(np.array([False, True]))
    lanes.check_action(np.zeros(2, np.int64))


def test_the_first_reset_must_include_all_lanes():
    with pytest.raises(ValueError, match="first reset must include all lanes"):
        Lanes("task", 2, 3).check_reset(np.array([True, False]), np.zeros(2, np.int64))


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1])
def test_seeds_outside_their_range_are_refused(seed):
    with pytest.raises(ValueError, match="seeds must lie in"):
        begun().check_reset(ALL, np.array([0, seed]))


def test_seeds_of_lanes_outside_the_mask_do_not_matter():
    begun().check_reset(np.array([True, False]), np.array([0, -1]))


@pytest.mark.parametrize(
    ("lanes", "seeds"),
    [(np.ones(3, bool), np.zeros(3, int)), (np.ones(2, int), np.zeros(2, int)), (ALL, np.zeros(2))],
)
def test_masks_and_seeds_of_another_shape_or_type_are_refused(lanes, seeds):
    with pytest.raises(ValueError, match="for each of 2 lanes"):
        begun().check_reset(lanes, seeds)


def test_lanes_cannot_be_shown_or_saved_before_their_first_episode():
    with pytest.raises(ValueError, match="reset all lanes first"):
        Lanes("task", 2, 3).check_lane(0)


def test_a_lane_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"lane must lie in \[0, 1\], got 2"):
        begun().check_lane(2)


def test_no_lanes_at_all_are_refused():
    with pytest.raises(ValueError, match="at least one lane"):
        Lanes("task", 0, 3)
