"""Checks FIDELITY and PAPER: every row names files, functions and tests that exist."""

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.house.names import ROOT, test_names
from tests.paper import code_links

DOCUMENT = ROOT / "docs" / "FIDELITY.md"
ON_SCREEN = 10  # lines by which a link may miss a function's beginning and still show it
HEAD = ["Item", "The paper", "We", "Why", "File", "Test"]


def rows() -> list[list[str]]:
    """Return the cells of every row of every table of the document."""
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("|")]
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines
    ]
    return [row for row in cells if row != HEAD and not set("".join(row)) <= set("-: ")]


def test_every_row_is_complete() -> None:
    for row in rows():
        assert len(row) == len(HEAD), row
        assert all(row), row


def test_every_ambiguity_and_misprint_has_a_row() -> None:
    items = " ".join(row[0] for row in rows())
    numbered = {int(n) for n in re.findall(r"(?<![.\d])(\d+)(?![.\d])", items)}
    assert set(range(1, 47)) <= numbered
    assert {int(n) for n in re.findall(r"0\.(\d+)", items)} == set(range(1, 19))


def test_every_file_named_exists() -> None:
    for row in rows():
        files = re.findall(r"`([\w/]+\.py)`", row[4])
        assert files, row
        for file in files:
            assert (ROOT / "agent57" / file).is_file(), file


def test_every_test_named_exists() -> None:
    names = test_names()
    for row in rows():
        tests = re.findall(r"`([\w/]+\.py)::(\w+)`", row[5])
        assert tests, row
        for file, name in tests:
            assert name in names.get(Path("tests") / file, set()), f"{file}::{name}"


def test_every_formula_leads_to_its_line() -> None:
    text = code_links.DOCUMENT.read_text()
    assert len(code_links.LINK.findall(text)) > 40
    rows = [line for line in text.splitlines() if re.match(r"\| (?!formula|-)", line)]
    for row in rows:
        assert code_links.LINK.search(row), row
    right = code_links.with_lines(text)
    for (name, file, line), (_, _, true_line) in zip(
        code_links.LINK.findall(text), code_links.LINK.findall(right), strict=True
    ):
        is_shown = abs(int(line) - int(true_line)) <= ON_SCREEN
        assert is_shown, f"{name} in {file}: run python -m tests.paper.code_links"


def test_links_follow_the_code() -> None:
    shifted = "[`Learner.update`](../agent57/learner.py#L1)"
    line = int(re.findall(r"L(\d+)", code_links.with_lines(shifted))[0])
    code = (ROOT / "agent57" / "learner.py").read_text().splitlines()
    assert code[line - 1].strip().startswith("def update(")
    with pytest.raises(KeyError):
        code_links.with_lines("[`Learner.gone`](../agent57/learner.py#L1)")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://host/me/agent57/", "[`a`](https://host/me/agent57/blob/main/agent57/b.py#L3)"),
        ("", "`a` (`agent57/b.py`, line 3)"),
    ],
)
def test_links_of_the_built_site(address: str, shown: str) -> None:
    hooks = runpy.run_path(str(ROOT / "mkdocs_hooks.py"))
    config = SimpleNamespace(repo_url=address)
    page = hooks["on_page_markdown"]("[`a`](../agent57/b.py#L3)", config=config, page=None)
    assert page == shown
