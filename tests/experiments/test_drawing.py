from pathlib import Path

from agent57.experiments.drawing import draw_curves, draw_curves_and_arms, note
from tests.experiments.made_up import experiment, outcome

ONE_ARM = {"arms": ((0.0, 0.99),), "plays": outcome().plays[:, :1]}


def texts(file: Path) -> str:
    return file.read_text()


def test_curves_show_all_contestants_and_what_to_compare_with(tmp_path: Path) -> None:
    made = experiment()
    results = {"ours": [outcome(), outcome(seed=1)], "theirs, joint": [outcome(score=0.1)]}
    assert draw_curves(made, made.budgets["minutes"], results, tmp_path) == ["curve"]
    content = texts(tmp_path / "curve.svg")
    for text in ("ours", "theirs, joint", "perfect"):
        assert f"<!-- {text} -->" in content
    assert f"<!-- {note(made, made.budgets['minutes'])}; " in content  # and explains the band
    assert (tmp_path / "curve.png").stat().st_size > 5000


def test_arms_are_drawn_for_contestants_that_have_any(tmp_path: Path) -> None:
    made = experiment()
    results = {"ours": [outcome()], "theirs, joint": [outcome(**ONE_ARM)]}
    names = draw_curves_and_arms(made, made.budgets["minutes"], results, tmp_path)
    assert names == ["curve", "arms"]
    content = texts(tmp_path / "arms.svg")
    assert "<!-- ours: share of plays -->" in content
    assert "<!-- ours: mean return -->" in content
    assert "theirs" not in content
    assert "<!-- 1: β 0.3, γ 0.9 -->" in content


def test_without_arms_there_are_only_curves(tmp_path: Path) -> None:
    made = experiment()
    results = {"theirs, joint": [outcome(**ONE_ARM)]}
    assert draw_curves_and_arms(made, made.budgets["minutes"], results, tmp_path) == ["curve"]
    assert not (tmp_path / "arms.svg").exists()
