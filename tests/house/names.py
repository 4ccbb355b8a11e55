"""Names of modules and tests in the repository, read without importing them."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agent57"


@cache
def modules() -> dict[Path, ast.Module]:
    """Return the syntax trees of the package's modules, by their path inside the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE): ast.parse(path.read_text()) for path in paths}


@cache
def test_names() -> dict[Path, set[str]]:
    """Return the names of test functions, by the path of their file from the root."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        names = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        found[path.relative_to(ROOT)] = {name for name in names if name.startswith("test_")}
    return found


test_names.__test__ = False  # type: ignore[attr-defined]
