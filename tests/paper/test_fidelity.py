"""FIDELITY and PAPER: every row names files, functions and tests that exist."""

import ast
import re
from pathlib import Path

from tests.house.names import ROOT, test_names

DOCUMENT = ROOT / "docs" / "FIDELITY.md"
HEAD = ["Item", "The paper", "We", "Why", "File", "Test"]


def rows() -> list[list[str]]:
    """Cells of every row of every table of the document."""
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


def definitions(file: str) -> set[str]:
    """Names of the functions, classes and methods of a module."""
    found = set()
    for node in ast.parse((ROOT / "agent57" / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found |= {node.name}
            members = node.body if isinstance(node, ast.ClassDef) else []
            found |= {f"{node.name}.{m.name}" for m in members if isinstance(m, ast.FunctionDef)}
    return found


def test_every_formula_leads_to_its_function() -> None:
    lines = (ROOT / "docs" / "PAPER.md").read_text().splitlines()
    places = [place for line in lines if line.startswith("| ") for place in line.split(";")]
    found = [re.search(r"((?:`[\w.]+`,? )+)in `([\w/]+\.py)`", place) for place in places]
    pairs = [(re.findall(r"`([\w.]+)`", m[1]), m[2]) for m in found if m]
    assert len(pairs) > 20
    for names, file in pairs:
        assert set(names) <= definitions(file), (names, file)
