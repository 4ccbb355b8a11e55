"""Checks shapes while testing: jaxtyping annotations of `ops` and `nets` are enforced.

Shapes are not checked in whole runs, where it would take a third of the time. The tests of learner,
players, curiosity and evaluator call the same networks and formulas.
"""

from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

WHOLE_RUNS = ("bench", "learning", "reproduce", "runtime")  # folders beside this file

jaxtyping.install_import_hook(["agent57.ops", "agent57.nets"], "beartype.beartype")


@pytest.fixture(autouse=True, scope="module")
def _whole_runs_are_unchecked(request: pytest.FixtureRequest) -> Iterator[None]:
    is_whole = request.path.relative_to(Path(__file__).parent).parts[0] in WHOLE_RUNS
    jaxtyping.config.update("jaxtyping_disable", is_whole)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
