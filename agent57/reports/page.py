"""The page about runs: its payload, and the static report, one HTML file that fetches nothing.

`sections.py` makes the sections and `charts.py` their charts. The files in `assets` draw them, in
the static report and on the live page of `agent57 watch`.
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
    Section,
    advice,
    arms,
    curiosity,
    films,
    learning,
    overview,
    settings,
    training,
)
from agent57.reports.suite_section import suite_section
from agent57.reports.suite_training import draw_training, training_section
from agent57.storage.files import open_plain, write_atomic
from agent57.storage.folder import CHECKPOINTS
from agent57.storage.history import RunHistory, find_runs
from agent57.storage.tail import RunTail

SCRIPTS = ("uplot.js", "charts.js", "page.js")
RESULTS_FILE = "results.json"
STYLES = ("uplot.css", "page.css")


def write_report(paths: list[Path], out: Path | None) -> Path:
    """Write the page about the runs in and below the paths; return the path of the page."""
    from agent57.storage.checkpoint import changed_journals  # torch, which the live page avoids

    require(bool(paths), "name at least one run folder")
    runs = []
    for path in find_runs(paths):
        tail = RunTail(path)
        tail.poll()
        history = tail.history()
        damage = history.damage or tuple(changed_journals(path, path / CHECKPOINTS))
        runs.append(dataclasses.replace(history, damage=damage))
    suite = results_of_suite(paths)
    file = out or (paths[0] / "report.html" if len(paths) == 1 else Path("report.html"))
    page = render(runs, suite)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, page.encode("utf-8"))
        draw_training(groups(runs), file.parent)
    except OSError as error:
        raise ConfigError(f"--out {file} cannot be written: {error.strerror}") from None
    return file


def results_of_suite(paths: Sequence[Path]) -> dict[str, Any] | None:
    """Return the results of the first suite folder among the paths."""
    files = [path / RESULTS_FILE for path in paths if (path / RESULTS_FILE).is_file()]
    if not files:
        return None
    try:
        with open_plain(files[0]) as opened:
            results: dict[str, Any] = json.loads(opened.read())
        suite_section(results)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__} {error}"
        raise ConfigError(f"{files[0]} holds no results of a suite: {reason}") from None
    return results


def page_title(runs: Sequence[RunHistory]) -> str:
    """Return a title with the agents and tasks of the runs."""
    envs = list(dict.fromkeys(run.env for run in runs))
    agents = list(dict.fromkeys(run.config.run.agent for run in runs))
    return f"{', '.join(agents)} on {_some(envs)}" if runs else "no runs yet"


def page_sections(
    runs: Sequence[RunHistory],
    suite: dict[str, Any] | None = None,
    film: Section | None = None,
    zoomed: Sequence[RunHistory] | None = None,
) -> list[Section]:
    """Return all sections of the page about the runs.

    zoomed: records of a part of training, for the charts; scores and health use all records
    """
    envs = list(dict.fromkeys(run.env for run in runs))
    members = groups(runs)
    parts = members if zoomed is None else groups(zoomed)
    is_detailed = len(members) <= MAX_DETAILED
    sections = [overview(runs)] if suite is None else [suite_section(suite)]
    sections.append(training_section(members))
    for env in envs:
        ours, shown = ([g for g in found if g.runs[0].env == env] for found in (members, parts))
        sections.append(learning(env, ours, shown))
    if is_detailed:
        sections += [arms(parts), curiosity(parts), training(parts)]
    else:
        text = f"Arms, novelty, losses and settings are shown for up to {MAX_DETAILED} groups."
        sections.append({"title": "Details", "text": f"{text} Choose fewer runs."})
    if film is not None:
        sections.append(film)
    if suite is None:  # only the overview has marks of health
        sections.append(advice())
    if is_detailed:
        sections.append(settings(members))
    return [section for section in sections if len(section) > 1]


def render(runs: Sequence[RunHistory], suite: dict[str, Any] | None = None) -> str:
    """Return the static page."""
    title = page_title(runs)
    payload = {"title": title, "sections": page_sections(runs, suite, films(runs))}
    return fill_page(title, payload, SCRIPTS)


def fill_page(title: str, payload: dict[str, Any], scripts: Sequence[str]) -> str:
    """Fill the page's frame. The payload is escaped, so it cannot end its script element."""
    content = json.dumps(payload, allow_nan=False, separators=(",", ":"))
    parts = {
        "TITLE": html.escape(title),
        "STYLE": "\n".join(asset(name) for name in STYLES),
        "PAYLOAD": content.replace("<", "\\u003c"),
        "SCRIPT": "\n".join(asset(name) for name in scripts),
    }
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], asset("page.html"))


def asset(name: str) -> str:
    """Return the text of a file in `assets`."""
    return resources.files("agent57.reports").joinpath("assets", name).read_text("utf-8")


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} tasks"


def groups(runs: Sequence[RunHistory]) -> list[Group]:
    """Group runs that differ only in their seed and length."""
    found: dict[Config, list[RunHistory]] = defaultdict(list)
    for run in runs:
        ours = run.config.run
        plain = dataclasses.replace(RunConfig(), agent=ours.agent, scale=ours.scale)
        found[dataclasses.replace(run.config, run=plain)].append(run)
    has_one_env = len({config.env.name for config in found}) == 1
    names = [
        config.run.agent if has_one_env else f"{config.run.agent} on {config.env.name}"
        for config in found
    ]
    return [
        Group(
            label=name if names.count(name) == 1 else f"{name} {members[0].path.name}",
            runs=members,
        )
        for name, members in zip(names, found.values(), strict=True)
    ]
