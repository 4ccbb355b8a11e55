import pytest

from agent57.bench.cost import Cost, compare, cost_of


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
