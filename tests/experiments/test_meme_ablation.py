import csv
from pathlib import Path

import numpy as np
import pytest

from agent57.experiments.meme_ablation import (
    MEME,
    TASKS,
    VARIANTS,
    frames_until,
    label,
    share_of_frames,
)
from agent57.presets import difference
from tests.experiments.made_up import outcome


def results(fast: tuple[int, ...] = (0, 0)) -> dict:
    """Each run reaches its target in one bin: meme's seeds in bins `fast`, others in the last."""
    found = {}
    for task in TASKS:
        for variant in VARIANTS:
            bins = fast if variant == "meme" else (3, 3)
            found[label(variant, task.env)] = [
                outcome(curve=np.where(np.arange(4) >= at, task.target, task.random)) for at in bins
            ]
    return found


def test_frames_and_errors_by_hand() -> None:
    found = results(fast=(0, 2))  # bins end at 100, 200, 300, 400 frames
    assert frames_until(found, "meme", 0.5) == [(200.0, pytest.approx(100.0))] * len(TASKS)
    assert share_of_frames(found) == pytest.approx(0.5)
    single = {name: seeds[:1] for name, seeds in found.items()}
    assert np.isnan(frames_until(single, "meme", 0.5)[0][1])


def test_a_third_of_the_frames_is_the_target() -> None:
    assert MEME.criteria[0].judge(results(fast=(0, 0))).is_met
    assert not MEME.criteria[0].judge(results(fast=(1, 1))).is_met


def test_every_variant_is_meme_without_one_part() -> None:
    env = TASKS[0].env
    whole = MEME.config(label("meme", env), 0, 1000)
    parts = {
        "meme without its trust region": {"learner.trust_region"},
        "meme without normalised errors": {"learner.td_scale", "learner.td_scale_batch"},
        "meme without soft Watkins": {"learner.loss"},
        "meme without cross-mixture": {"learner.cross_mixture"},
        "meme without a shared torso": {"network.values", "learner.value_loss"},
        "meme with distillation switched": {"learner.policy"},
    }
    assert set(VARIANTS) == {"meme", "agent57", *parts}
    for variant, fields in parts.items():
        assert set(difference(MEME.config(label(variant, env), 0, 1000), whole)) == fields


def test_tasks_have_the_frames_of_the_desk_suite() -> None:
    budget = MEME.budgets["full"]
    assert {task.env: budget.frames_of(task.env) for task in TASKS} == {
        task.env: task.frames for task in TASKS
    }
    assert budget.num_seeds == 3


def test_the_figure_and_the_table_of_frames(tmp_path: Path) -> None:
    assert MEME.draw(MEME, MEME.budgets["full"], results(), tmp_path) == ["frames"]
    assert (tmp_path / "frames.png").stat().st_size > 5000
    rows = list(csv.reader((tmp_path / "frames.csv").open()))
    assert len(rows) == 1 + len(VARIANTS)
    assert rows[1][:3] == ["meme", "100", "0"]
