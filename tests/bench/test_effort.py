import pytest

from agent57.bench.effort import FULL, LEARNED_PER_STEP, bench_config
from agent57.presets import make_config


@pytest.mark.parametrize("scale", ["paper", "laptop", "tiny"])
def test_networks_are_those_of_the_scale(scale: str) -> None:
    assert bench_config(scale, 16).network == make_config("agent57", scale).network


@pytest.mark.parametrize("scale", ["paper", "laptop", "tiny"])
def test_three_timesteps_are_learned_for_each_step_played(scale: str) -> None:
    config = bench_config(scale, 16)
    timesteps_per_window = config.replay.samples_per_insert * config.sequence.trace_length
    assert timesteps_per_window / config.sequence.replay_period == LEARNED_PER_STEP == 3


def test_paper_size_is_measured_on_16_windows_of_80() -> None:
    config = bench_config("paper", 16)
    assert (config.learner.batch_size, config.sequence.window_length) == (16, 80)


def test_the_full_plan_is_the_one_of_the_issue() -> None:
    assert FULL.scales == ("paper", "laptop")
    assert FULL.lanes == (1, 4, 16, 64)
    assert FULL.memories == (1_000, 10_000, 30_000)
    assert FULL.threads == (1, 2)
    assert len(FULL.games) == 8
