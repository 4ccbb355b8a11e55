"""The pieces of the benchmark: costs, plans, limits and counted operations."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from agent57.bench.acting import flops_of_a_step
from agent57.bench.cost import Cost, compare, cost_of
from agent57.bench.effort import FULL, LEARNED_PER_STEP, QUICK, bench_config
from agent57.bench.limits import Emulator, Limits, count_flops
from agent57.bench.sharing import sharing
from agent57.config import EnvConfig
from agent57.presets import make_config
from tests.small import make_learner, random_batch, small_config


def test_costs_add_and_scale() -> None:
    assert Cost(1.0, 2.0) + Cost(3.0, 5.0) * 2 == Cost(7.0, 12.0)


def test_work_is_called_as_often_as_asked() -> None:
    calls: list[int] = []
    cost = cost_of(lambda: calls.append(1), calls=5)
    assert len(calls) == 5
    assert cost.wall >= 0
    assert cost.cpu >= 0


def test_the_median_of_pairs_by_hand() -> None:
    # Ratios of the pairs: 1/2, 1/4, 3/4; rates of 10 units: 5, 2.5, 2.5.
    work = iter([Cost(2.0, 2.0), Cost(4.0, 4.0), Cost(4.0, 8.0)])
    limit = iter([Cost(1.0, 1.0), Cost(1.0, 2.0), Cost(3.0, 2.0)])
    figures = compare(lambda: next(work), lambda: next(limit), repeats=3, amount=10)
    assert figures == {
        "rate": 2.5,
        "lowest": 2.5,
        "highest": 5.0,
        "limit": pytest.approx(10.0),
        "ratio": 0.5,
        "cpu_ratio": 0.5,
    }


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


def test_the_full_plan_covers_both_scales_and_eight_games() -> None:
    assert FULL.scales == ("paper", "laptop")
    assert FULL.lanes == (1, 4, 16, 64)
    assert FULL.memories == (1_000, 10_000, 30_000)
    assert FULL.threads == (1, 2)
    assert len(FULL.games) == 8


def test_a_matrix_product_is_counted_by_hand() -> None:
    a, b = torch.zeros(3, 5), torch.zeros(5, 7)
    assert count_flops(lambda: a @ b) == 2 * 3 * 5 * 7


def test_an_lstm_is_counted_by_hand_forward_and_backward() -> None:
    rows, batch, inputs, units = 6, 2, 5, 4
    lstm = nn.LSTM(inputs, units)
    sequence = torch.zeros(rows, batch, inputs)
    once = 2 * rows * batch * 4 * units * (inputs + units)

    def forward() -> torch.Tensor:
        return lstm(sequence)[0]

    with torch.no_grad():
        assert count_flops(forward) == once
    assert count_flops(lambda: forward().sum().backward()) == 3 * once


def test_limits_are_positive() -> None:
    limits = Limits(seconds=0.0)
    assert limits.flop().wall > 0
    assert limits.byte().wall > 0


def test_the_emulator_plays_on_over_the_end_of_episodes() -> None:
    emulator = Emulator(EnvConfig(name="random_coin", max_episode_frames=3), num_lanes=2)
    for _ in range(10):
        emulator.step()
    emulator.close()


def test_all_networks_are_counted_whatever_the_threads() -> None:
    counted = set()
    before = torch.get_num_threads()
    for threads in (1, 2):
        learner, batch = make_learner(small_config()), random_batch(small_config())
        torch.set_num_threads(threads)
        update = count_flops(lambda each=(learner, batch): each[0].update(each[1]))
        counted.add((flops_of_a_step("tiny"), update))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    assert len(counted) == 1


def test_sharing_compares_like_with_like() -> None:
    act, learn = sharing(replace(QUICK, main_lanes=2), "tiny")
    assert (act.part, act.setting, act.unit) == ("acting", "2 lanes", "steps")
    assert (learn.part, learn.setting, learn.unit) == ("learning", "16 x 20", "timesteps")
