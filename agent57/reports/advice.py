"""Advice for each symptom of a run: the texts behind the marks of health.

The live page and the report include these texts, so that a mark can link to its advice without a
network. `assets/advice.md` holds them, and docs/DIAGNOSE.md a copy, which a test compares. Words in
backticks are metrics and settings.
"""

import re
from dataclasses import dataclass
from importlib import resources

ENTRY = re.compile(
    r"### (?P<title>.+)\n\n"
    r"- Look at: (?P<look_at>.+)\n- Healthy: (?P<healthy>.+)\n- Otherwise: (?P<otherwise>.+)\n"
)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A symptom, the metrics that show it, their healthy range, and what to change."""

    title: str
    look_at: str
    healthy: str
    otherwise: str

    @property
    def symptom(self) -> str:
        """The title within a sentence."""
        return self.title[0].lower() + self.title[1:]

    @property
    def anchor(self) -> str:
        """The symptom's anchor in an address, as Markdown derives it from the heading."""
        return re.sub(r"[^\w\s-]", "", self.title.lower()).replace(" ", "-")


TEXT = resources.files("agent57.reports").joinpath("assets", "advice.md").read_text("utf-8")
ADVICE = [Advice(**found.groupdict()) for found in ENTRY.finditer(TEXT)]
BY_SYMPTOM = {advice.symptom: advice for advice in ADVICE}
