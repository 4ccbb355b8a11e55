"""Costs that plans are made from: the fit by hand and by law, and one quick measurement."""

import numpy as np
import pytest

from agent57.bench.effort import QUICK
from agent57.bench.measuring import fitted, measure_costs


def test_costs_that_explain_the_times_are_found() -> None:
    rows = [[1.0, 10.0, 3.0], [1.0, 20.0, 1.0], [1.0, 5.0, 8.0], [1.0, 1.0, 1.0]]
    seconds = [float(np.dot(row, [2.0, 0.5, 4.0])) for row in rows]
    assert fitted(rows, seconds) == pytest.approx([2.0, 0.5, 4.0])


def test_no_cost_is_negative() -> None:
    rows = [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]
    costs = fitted(rows, [3.0, 2.0, 1.0])  # the line through them falls
    assert min(costs) >= 0
    assert costs[1] == 0


def test_columns_of_any_magnitude_are_told_apart() -> None:
    rows = [[1.0, 1e9], [1.0, 2e9], [1.0, 5e9]]
    assert fitted(rows, [2.0, 3.0, 6.0]) == pytest.approx([1.0, 1e-9])


def test_a_quick_measurement_finds_every_cost() -> None:
    told: list[str] = []
    costs = measure_costs(QUICK, told.append)
    assert "costs of acting" in told
    for name in ("flop", "emulator", "insert", "sample", "process_bytes"):
        assert getattr(costs, name) > 0, name
    assert costs.act_call + costs.act_lane + costs.act_flop + costs.act_weight_byte > 0
    assert costs.update_call + costs.update_byte + costs.update_flop + costs.update_weight_byte > 0
    first, further = costs.frames["pong"]
    assert 0 < further < 84 * 84
