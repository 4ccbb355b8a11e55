from pathlib import Path

import numpy as np
import pytest
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from agent57.reports import figures
from agent57.reports.figures import (
    BAND,
    NOT_PLAYED,
    arm_heat_maps,
    grouped_bars,
    learning_curves,
    training_curves,
)


def test_bars_and_their_lines_have_the_heights_they_were_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(figures.plt, "close", drawn.append)
    panels = {
        "top": {"a": [(0.3, 0.2, 0.4), (0.9, 0.9, 0.9)], "b": [(0.1, 0.0, 0.1), (0.5, 0.4, 0.8)]},
        "bottom": {"a": [(0.6, 0.6, 0.6), (0.7, 0.5, 0.8)], "b": [(0.0, 0.0, 0.0), (1, 0.9, 1)]},
    }
    grouped_bars(panels, groups=["0.1", "1"], x_label="x", y_label="y", note="", files=[])
    for axis, (title, bars) in zip(drawn[0].axes, panels.items(), strict=True):
        assert axis.get_title(loc="left") == title
        containers = [found for found in axis.containers if isinstance(found, BarContainer)]
        assert [container.get_label() for container in containers] == list(bars)
        for container, values in zip(containers, bars.values(), strict=True):
            assert [bar.get_height() for bar in container] == [mean for mean, _, _ in values]
            lines = [line[:, 1] for line in container.errorbar[2][0].get_segments()]
            np.testing.assert_allclose(lines, [(low, high) for _, low, high in values])
    monkeypatch.undo()
    figures.plt.close(drawn[0])


def test_a_mean_a_rounding_error_away_from_equal_seeds_is_drawn(tmp_path: Path) -> None:
    seeds = [0.998] * 3
    assert np.mean(seeds) != 0.998
    bar = (float(np.mean(seeds)), min(seeds), max(seeds))
    file = tmp_path / "bars.svg"
    grouped_bars({"one": {"a": [bar]}}, groups=["1"], x_label="x", y_label="y", note="n",
                 files=[file])  # fmt: skip
    assert file.stat().st_size > 0


def check_drawn(file: Path, *texts: str) -> None:
    content = file.read_text()
    for text in texts:
        assert f"<!-- {text} -->" in content


def test_bars_are_drawn_with_labels_and_note(tmp_path: Path) -> None:
    file = tmp_path / "bars.svg"
    grouped_bars(
        {"one": {"a": [(0.3, 0.2, 0.4), (0.9, 0.9, 0.9)], "b": [(0.1, 0, 0.1), (0.5, 0.5, 0.5)]}},
        groups=["0.1", "1"],
        x_label="weight",
        y_label="return",
        note="2 seeds",
        files=[file],
    )
    assert file.read_text().count("<svg") == 1
    check_drawn(file, "weight", "return", "2 seeds", "one")


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
    check_drawn(file, "two seeds", "frames", "return", "random", f"a note; {BAND}")
    assert "never evaluated" not in file.read_text()


def test_arm_maps_have_a_panel_per_quantity_and_name(tmp_path: Path) -> None:
    file = tmp_path / "arms.svg"
    share = np.array([[1.0, 0.0], [np.nan, np.nan], [0.5, 0.5]])
    arm_heat_maps(
        {"ours": {"share": share, "return": share}, "theirs": {"share": share, "return": share}},
        best_arms={"ours": np.array([np.nan, 0, 1]), "theirs": np.zeros(3)},
        arms=["arm zero", "arm one"],
        max_frames=30.0,
        x_label="frames",
        note="a note",
        files=[file],
    )
    check_drawn(file, "ours: share", "ours: return", "theirs: share", "theirs: return", "arm one")


def kept_figure(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    drawn: list[Figure] = []
    monkeypatch.setattr(figures.plt, "close", drawn.append)
    return drawn


def test_the_best_arm_is_drawn_in_steps_on_one_scale_from_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = kept_figure(monkeypatch)
    one, other = np.array([[0.5, np.nan], [0.7, 0.6]]), np.array([[2.0, 1.0], [np.nan, 3.0]])
    arm_heat_maps(
        {"ours": {"return": one}, "theirs": {"return": other}},
        best_arms={"ours": np.array([0.0, 1.0]), "theirs": np.array([1.0, 1.0])},
        arms=["a", "b"],
        max_frames=20.0,
        x_label="frames",
        note="",
        files=[],
    )
    panels = [axis for axis in drawn[0].axes if axis.images]
    assert [axis.images[0].get_clim() for axis in panels] == [(0.0, 3.0), (0.0, 3.0)]
    assert mpl_hex(panels[0].get_facecolor()) == NOT_PLAYED
    (steps,) = [patch for patch in panels[0].patches if patch.get_label() == "best arm"]
    assert set(steps.get_data().values) == {0.0, 1.0}
    assert not panels[0].lines  # no diagonal
    monkeypatch.undo()
    figures.plt.close(drawn[0])


def mpl_hex(colour: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour[:3])


def test_the_band_is_explained_where_there_is_one(tmp_path: Path) -> None:
    x = np.array([1.0, 2.0])
    for name, seeds in (("one", [(x, x)]), ("two", [(x, x), (x, x + 1)])):
        file = tmp_path / f"{name}.svg"
        learning_curves({"a": seeds}, lines={}, x_label="x", y_label="y", note="note", files=[file])
        assert (BAND in file.read_text()) == (name == "two")


def test_training_curves_have_a_panel_per_quantity(tmp_path: Path) -> None:
    file = tmp_path / "training.svg"
    x = np.array([0.0, 10.0])
    training_curves(
        {"games": {"agent57": (x, x)}, "score": {"agent57": (x, x)}},
        lines={"games": 5.0},
        x_label="frames",
        note="a note",
        files=[file],
    )
    check_drawn(file, "games", "score", "agent57", "frames", "a note")
