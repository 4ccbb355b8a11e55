"""The links from docs/PAPER.md to lines of code.

python -m tests.paper.code_links        updates the line numbers of all links
"""

import ast
import re

from tests.house.names import ROOT

DOCUMENT = ROOT / "docs" / "PAPER.md"
LINK = re.compile(r"\[`([\w.]+)`\]\(\.\./(agent57/[\w/]+\.py)#L(\d+)\)")


def definitions(file: str) -> dict[str, int]:
    """Return the lines where the functions, classes and methods of a module begin."""
    found = {}
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node.lineno
            members = node.body if isinstance(node, ast.ClassDef) else []
            methods = (member for member in members if isinstance(member, ast.FunctionDef))
            found |= {f"{node.name}.{method.name}": method.lineno for method in methods}
    return found


def with_lines(text: str) -> str:
    """Return the text with the right line in every link; raise KeyError for an unknown name."""

    def link(match: re.Match[str]) -> str:
        name, file, _ = match.groups()
        return f"[`{name}`](../{file}#L{definitions(file)[name]})"

    return LINK.sub(link, text)


if __name__ == "__main__":
    DOCUMENT.write_text(with_lines(DOCUMENT.read_text()))
