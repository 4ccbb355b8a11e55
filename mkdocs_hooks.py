"""Links from pages to lines of code, for the built site, which does not contain the code."""

import re
from typing import Any

LINK = re.compile(r"\[(`[\w.]+`)\]\(\.\./(agent57/[\w/]+\.py)#L(\d+)\)")


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:  # noqa: ANN401
    """Link to the repository if `repo_url` names one; otherwise write the file and the line."""
    if config.repo_url:
        code = config.repo_url.rstrip("/") + "/blob/main"
        return LINK.sub(rf"[\1]({code}/\2#L\3)", markdown)
    return LINK.sub(r"\1 (`\2`, line \3)", markdown)
