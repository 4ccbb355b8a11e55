"""One HTML page about runs that needs nothing but a browser: no network, no other file.

Sections are made in `sections.py`, their charts in `charts.py`; `data/report.*` is the page.
"""

import dataclasses
import html
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from agent57.config import Config, ConfigError, RunConfig, require
from agent57.reports.charts import Group
from agent57.reports.sections import (
    MAX_DETAILED,
    arms,
    curiosity,
    films,
    learning,
    overview,
    settings,
    training,
)
from agent57.reports.suite_section import suite_section
from agent57.storage.folder import write_atomic
from agent57.storage.history import RunHistory, find_runs


def write_report(paths: list[Path], out: Path | None) -> Path:
    """Write the page about the runs in and below the paths; where it is."""
    require(bool(paths), "name at least one run folder")
    runs = [RunHistory.read(path) for path in find_runs(paths)]
    suite = _suite_results(paths)
    file = out or (paths[0] / "report.html" if len(paths) == 1 else Path("report.html"))
    page = render(runs, suite)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, page.encode("utf-8"))
    except OSError as error:
        raise ConfigError(f"--out {file} cannot be written: {error.strerror}") from None
    return file


def _suite_results(paths: Sequence[Path]) -> dict[str, Any] | None:
    files = [path / "results.json" for path in paths if (path / "results.json").is_file()]
    return json.loads(files[0].read_text("utf-8")) if files else None


def render(runs: Sequence[RunHistory], suite: dict[str, Any] | None = None) -> str:
    """The page."""
    envs = list(dict.fromkeys(run.env for run in runs))
    agents = list(dict.fromkeys(run.config.run.agent for run in runs))
    title = f"{', '.join(agents)} on {_some(envs)}"
    sections = [overview(runs)] if suite is None else [suite_section(suite)]
    sections += [learning(env, groups(runs, env)) for env in envs]
    if len(runs) <= MAX_DETAILED:
        sections += [arms(runs), curiosity(runs), training(runs), films(runs), settings(runs)]
    else:
        text = f"Arms, curiosity, losses and settings are shown for up to {MAX_DETAILED} runs."
        sections.append({"title": "Details", "text": f"{text} Make a report of fewer."})
    sections = [section for section in sections if len(section) > 1]
    payload = json.dumps({"title": title, "sections": sections}, allow_nan=False)
    parts = {
        "TITLE": html.escape(title),
        "STYLE": _asset("report.css"),
        "PAYLOAD": payload.replace("<", "\\u003c"),
        "SCRIPT": _asset("report.js"),
    }
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], _asset("report.html"))


def _asset(name: str) -> str:
    return resources.files("agent57.reports").joinpath("assets", name).read_text("utf-8")


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} tasks"


def groups(runs: Sequence[RunHistory], env: str) -> list[Group]:
    """Runs on a task, together where they differ in nothing but the seed and how long they ran."""
    found: dict[Config, list[RunHistory]] = defaultdict(list)
    for run in runs:
        if run.env == env:
            ours = run.config.run
            plain = dataclasses.replace(RunConfig(), agent=ours.agent, scale=ours.scale)
            found[dataclasses.replace(run.config, run=plain)].append(run)
    names = [config.run.agent for config in found]
    return [
        Group(
            label=config.run.agent
            if names.count(config.run.agent) == 1
            else f"{config.run.agent} {members[0].path.name}",
            runs=members,
        )
        for config, members in found.items()
    ]
