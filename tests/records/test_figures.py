from pathlib import Path

import numpy as np

from agent57.records.figures import arm_maps, grouped_bars, learning_curves


def test_bars_are_drawn_with_labels_and_note(tmp_path: Path) -> None:
    file = tmp_path / "bars.svg"
    grouped_bars(
        {"one": {"a": [[0.2, 0.4], [0.9]], "b": [[0.1], [0.5]]}},
        groups=["0.1", "1"],
        x_label="weight",
        y_label="return",
        note="2 seeds",
        files=[file],
    )
    content = file.read_text()
    assert content.count("<svg") == 1
    for text in ("weight", "return", "2 seeds", "one"):
        assert f"<!-- {text} -->" in content


def test_curves_skip_what_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "curves.svg"
    x, nothing = np.array([1.0, 2, 3]), np.full(3, np.nan)
    learning_curves(
        {
            "two seeds": [(x, np.array([0.0, np.nan, 1])), (x, np.array([np.nan, 1, 2]))],
            "never evaluated": [(x, nothing)],
        },
        lines={"random": 0.5},
        x_label="frames",
        y_label="return",
        note="a note",
        files=[file],
    )
    content = file.read_text()
    for text in ("two seeds", "frames", "return", "random", "a note"):
        assert f"<!-- {text} -->" in content
    assert "never evaluated" not in content


def test_arm_maps_have_a_panel_per_quantity_and_name(tmp_path: Path) -> None:
    file = tmp_path / "arms.svg"
    share = np.array([[1.0, 0.0], [np.nan, np.nan], [0.5, 0.5]])
    arm_maps(
        {"ours": {"share": share, "return": share}, "theirs": {"share": share, "return": share}},
        best_arms={"ours": np.array([np.nan, 0, 1]), "theirs": np.zeros(3)},
        arms=["arm zero", "arm one"],
        max_frames=30.0,
        x_label="frames",
        note="a note",
        files=[file],
    )
    content = file.read_text()
    for text in ("ours: share", "ours: return", "theirs: share", "theirs: return", "arm one"):
        assert f"<!-- {text} -->" in content
