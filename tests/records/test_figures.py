from pathlib import Path

from agent57.records.figures import grouped_bars


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
