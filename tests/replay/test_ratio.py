import pytest

from agent57.config import ReplayConfig
from agent57.replay.buffer import SamplesPerInsert


def make(min_windows: int, samples_per_insert: float) -> SamplesPerInsert:
    config = ReplayConfig(min_windows=min_windows, samples_per_insert=samples_per_insert)
    return SamplesPerInsert(config)


def test_owes_nothing_before_the_minimum_is_there():
    ratio = make(100, 2.0)
    assert not any(ratio.updates_owed(windows, 0, 64) for windows in range(100))
    assert ratio.updates_owed(100, 0, 64) == 1


def test_updates_owed_by_hand():
    ratio = make(10, 2.0)
    # After one update of 8 windows, the next is owed when 2 (windows - 10) reaches 8.
    assert [ratio.updates_owed(windows, 1, 8) for windows in (10, 13, 14, 17, 18)] == [
        0,
        0,
        1,
        1,
        2,
    ]
    assert ratio.updates_owed(14, 5, 8) == 0  # a learner that is ahead owes nothing


@pytest.mark.parametrize("samples_per_insert", [0.1, 0.77, 1.54, 8.0])
def test_samples_keep_pace_with_inserts_by_law(samples_per_insert):
    ratio = make(50, samples_per_insert)
    updates = 0
    for windows in range(1, 5000):
        burst = ratio.updates_owed(windows, updates, 16)
        updates += burst
        assert burst <= samples_per_insert / 16 + 1  # updates do not catch up for the start
        if windows >= 50:
            earned = samples_per_insert * (windows - 50)
            assert earned < updates * 16 <= earned + 16


def test_acting_waits_for_a_learner_that_is_far_behind():
    ratio = make(10, 2.0)
    assert ratio.may_insert(9, 0, 8, slack_updates=1)
    assert ratio.may_insert(14, 0, 8, slack_updates=1)
    assert not ratio.may_insert(15, 0, 8, slack_updates=1)
    assert ratio.may_insert(15, 1, 8, slack_updates=1)


def test_learner_and_actors_never_wait_for_each_other_by_law():
    ratio = make(7, 1.54)
    for windows in range(200):
        for updates in range(60):
            owes = ratio.updates_owed(windows, updates, 8)
            assert owes or ratio.may_insert(windows, updates, 8, slack_updates=0)
