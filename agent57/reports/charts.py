"""Charts as plain containers: their series, axes and reference lines.

`assets/charts.js` draws the charts, in the static report and on the live page. This module knows
nothing about pixels. Numbers are thinned to `MAX_POINTS` and rounded to `DIGITS` here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent57.scores.aggregate import WINDOW_EPISODES, windowed_mean
from agent57.scores.published import AGENTS, baseline, published, suite_games
from agent57.storage.history import Points, RunHistory

Chart = dict[str, Any]
Floats = NDArray[np.float64]
Curve = tuple[Floats, Floats]  # frames, values

MAX_POINTS = 400  # points per series
MAX_COLUMNS = 100  # columns per heat map
DIGITS = 5  # significant digits
NEAR = 3.0  # published scores within this multiple of the shown range are shown at first


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ in nothing but their seed."""

    label: str
    runs: list[RunHistory]

    @property
    def seeds(self) -> str:
        """The number of seeds in words."""
        return "1 seed" if len(self.runs) == 1 else f"{len(self.runs)} seeds"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart: a curve per seed, and how to draw them."""

    name: str
    curves: list[Curve]
    colour: int
    is_step: bool = False
    is_faint: bool = False
    notes: list[str] | None = None  # shown after a value in the tooltip: note k for value k


def rounded(values: Floats) -> list[float | None]:
    """Round to `DIGITS` significant digits; infinite values and nan become None."""
    is_finite = np.isfinite(values)
    safe = np.where(is_finite & (values != 0), values, 1.0)
    digits = DIGITS - 1 - np.floor(np.log10(np.abs(safe)))
    more, less = 10.0 ** np.clip(digits, 0, 300), 10.0 ** np.clip(-digits, 0, 300)
    short = np.round(safe * more / less) * less / more
    kept = np.where(values == 0, 0.0, short)
    return [x if ok else None for x, ok in zip(kept.tolist(), is_finite.tolist(), strict=True)]


def as_curve(points: Points) -> Curve:
    """Return points as two arrays, frames and values."""
    frames, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return frames, values


def common_grid(curves: Sequence[Curve], limit: int = MAX_POINTS) -> Floats:
    """Return the frames of all curves, or `limit` evenly spaced ones if there are more."""
    frames = np.unique(np.concatenate([x for x, _ in curves] or [np.empty(0)]))
    return frames if len(frames) <= limit else np.linspace(frames[0], frames[-1], limit)


def on_grid(curve: Curve, grid: Floats, *, is_step: bool = False) -> Floats:
    """Return the curve's values on a grid; nan outside the curve.

    A grid point that stands for several points gets their mean, one between points is interpolated.
    A step curve keeps its last value instead, because its values have no mean.
    """
    frames, values = curve
    if not len(frames):
        return np.full(len(grid), np.nan)
    if is_step:
        place = np.searchsorted(frames, grid, side="right") - 1
        found = np.where(place >= 0, values[np.maximum(place, 0)], np.nan)
    else:
        if len(frames) > len(grid):
            middles = (grid[1:] + grid[:-1]) / 2
            cell = np.searchsorted(middles, frames)
            counts = np.bincount(cell, minlength=len(grid))
            totals = np.bincount(cell, weights=values, minlength=len(grid))
            has_points = counts > 0
            frames, values = grid[has_points], totals[has_points] / counts[has_points]
        found = np.interp(grid, frames, values)
    return np.where((grid < frames[0]) | (grid > frames[-1]), np.nan, found)


def line_chart(
    title: str, x_label: str, y_label: str, lines: Sequence[Line], note: str, **more: object
) -> Chart:
    """Put lines on one grid. Several seeds become their mean, with a band over their range."""
    grid = common_grid([curve for line in lines for curve in line.curves])
    data, series = [rounded(grid)], []
    for line in lines:
        rows = np.array([on_grid(curve, grid, is_step=line.is_step) for curve in line.curves])
        described: Chart = {"name": line.name, "colour": line.colour}
        if line.is_step:
            described["is_step"] = True
        if line.is_faint:
            described["is_faint"] = True
        if line.notes is not None:
            described["notes"] = line.notes
        if len(rows) > 1:
            # The mean is nan where a seed has not begun or has ended.
            data += [rounded(rows.mean(0)), rounded(rows.min(0)), rounded(rows.max(0))]
            described["has_band"] = True
        elif len(rows):
            data.append(rounded(rows[0]))
        else:
            data.append([])
        series.append(described)
    chart: Chart = {
        "kind": "lines",
        "title": title,
        "x": x_label,
        "y": y_label,
        "series": series,
        "data": data,
        "note": note,
        **more,
    }
    if not len(grid):
        chart.setdefault("empty", "Nothing has been written yet.")
    return chart


def seeds_note(groups: Sequence[Group]) -> str:
    """Return a note that says how many seeds each line stands for, and what a band means."""
    has_bands = any(len(group.runs) > 1 for group in groups)
    if len(groups) == 1:
        text = groups[0].seeds
    else:
        text = ", ".join(f"{group.label}: {group.seeds}" for group in groups)
    return f"{text}; line: mean, band: lowest to highest seed" if has_bands else text


def metric_charts(
    groups: Sequence[Group],
    title: str,
    y_label: str,
    names: dict[str, str],
    about: str,
    **more: object,
) -> list[Chart]:
    """Draw metrics over training: one chart for one group, a chart per metric for several groups.

    names: metrics and their labels; metrics that no run has are left out
    about: a few words about the metrics, for the note below the title
    """

    def curves(group: Group, name: str) -> list[Curve]:
        return [as_curve(points) for run in group.runs if (points := run.column(name))]

    present = {
        name: label
        for name, label in names.items()
        if any(run.column(name) for group in groups for run in group.runs)
    }
    if not present:
        return []
    x_label, note = groups[0].runs[0].x_label, f"{about}; {seeds_note(groups)}"
    if len(groups) == 1:
        lines = [
            Line(name=label, curves=curves(groups[0], name), colour=colour)
            for colour, (name, label) in enumerate(present.items())
        ]
        return [line_chart(title, x_label, y_label, lines, note, **more)]
    charts = []
    for name, label in present.items():
        lines = [
            Line(name=group.label, curves=found, colour=colour)
            for colour, group in enumerate(groups)
            if (found := curves(group, name))
        ]
        full_title = title if len(present) == 1 else f"{title}: {label}"
        charts.append(line_chart(full_title, x_label, y_label, lines, note, **more))
    return charts


def run_label(run: RunHistory) -> str:
    """Return a name that tells a run from others."""
    return f"{run.path.name} ({run.config.run.agent}, seed {run.config.run.seed})"


def learning_chart(env: str, groups: Sequence[Group], window: int) -> Chart:
    """Draw evaluator scores over training, with human, random and published scores.

    window: number of episodes that a point of the curve averages
    """
    lines: list[Line] = []
    has_scores = False
    for colour, group in enumerate(groups):
        curves = [curve for run in group.runs if len((curve := score_curve(run, window))[0])]
        if curves:
            has_scores = True
            name = f"{group.label}, {group.seeds}"
            lines.append(Line(name=name, curves=curves, colour=colour))
        actors = [
            as_curve(points) for run in group.runs if (points := run.column("episode/return"))
        ]
        if actors:
            name = f"{group.label}, actors (exploring)"
            lines.append(Line(name=name, curves=actors, colour=colour, is_faint=True))
    chart = line_chart(
        f"Score on {env}",
        groups[0].runs[0].x_label,
        "return per episode (points)",
        lines,
        f"mean of the last {window} evaluation episodes; {seeds_note(groups)}",
        is_large=True,
    )
    if not has_scores:
        chart["note"] = "No evaluation episode has ended yet."
        if lines:
            chart["note"] += " The faint line is the actors' mean return."
        else:
            chart["empty"] = "No episode has ended yet."
            frames = [run.latest.get("frames", 0) for group in groups for run in group.runs]
            chart["x_range"] = [0, max([*frames, 1])]
    if env in suite_games("atari57"):
        scale = baseline(env, "agent57")
        chart["references"] = references(env, chart)
        chart["hns"] = {"human": scale.human, "random": scale.random}
    return chart


def references(env: str, chart: Chart) -> list[Chart]:
    """Return horizontal lines at known scores; scores far above the data are hidden at first."""
    scale = baseline(env, "agent57")
    known = {"human": scale.human, "random": scale.random}
    drawn = [value for row in chart["data"][1:] for value in row if value is not None]
    values = drawn + list(known.values())
    low, high = min(values), max(values)
    rows = [{"name": name, "value": value, "is_shown": True} for name, value in known.items()]
    for agent, label in AGENTS.items():
        result = published(agent, env, "agent57")
        if result is not None:
            is_near = result.score <= low + NEAR * (high - low)
            rows.append({"name": label, "value": result.score, "is_shown": is_near})
    return rows


def score_window(groups: Sequence[Group]) -> int:
    """Return how many episodes a point averages: the paper's 50, or fewer for short runs."""
    counts = [
        sum(row["phase"] == "evaluate" for row in run.episodes) for g in groups for run in g.runs
    ]
    fewest = min((count for count in counts if count), default=0)
    return int(np.clip(fewest // 4, 5, WINDOW_EPISODES))


def score_curve(run: RunHistory, window: int) -> Curve:
    """Return the mean return of the last `window` evaluation episodes over frames."""
    rows = [(r["frames"], r["return"]) for r in run.episodes if r["phase"] == "evaluate"]
    if not rows:
        return np.empty(0), np.empty(0)
    frames, returns = np.array(sorted(rows, key=lambda row: row[0]), dtype=np.float64).T
    return windowed_mean(frames, returns, window)


def best_arm_charts(groups: Sequence[Group]) -> list[Chart]:
    """Draw the evaluator's best arm over training, its beta and its horizon (the paper's figure).

    Each seed has its own line, because a mean of arms has no meaning.
    """
    arm_lines: list[Line] = []
    beta_lines: list[Line] = []
    horizon_lines: list[Line] = []
    runs = [run for group in groups for run in group.runs]
    for colour, run in enumerate(runs):
        points = run.best_arms
        if not points:
            continue
        frames, arms = as_curve(points)
        label = run_label(run) if len(runs) > 1 else "best arm"
        beta, gamma = np.array(run.arms).T
        chosen = arms.astype(int)
        notes = [arm_note(arm) for arm in run.arms]
        curves = ((frames, arms), (frames, beta[chosen]), (frames, 1 / (1 - gamma[chosen])))
        for lines, curve, more in zip(
            (arm_lines, beta_lines, horizon_lines), curves, (notes, None, None), strict=True
        ):
            lines.append(Line(name=label, curves=[curve], colour=colour, is_step=True, notes=more))
    if not arm_lines:
        return []
    num_arms = max(len(run.arms) for run in runs)
    x_label, note = runs[0].x_label, "the evaluator's choice; one line a seed"
    ladder = [0, max(1, num_arms - 1)]
    return [
        line_chart("Best arm", x_label, "arm j", arm_lines, note, y_range=ladder, is_whole=True),
        line_chart("Weight of novelty, beta of the best arm", x_label, "beta", beta_lines, note),
        line_chart(
            "Horizon of the best arm, 1 / (1 - gamma)",
            x_label,
            "agent steps",
            horizon_lines,
            note,
            is_log=True,
        ),
    ]


def arm_note(arm: tuple[float, float]) -> str:
    """Return an arm's beta and gamma as text."""
    beta, gamma = arm
    return f"beta {beta:.4g}, gamma {gamma:.6g}"


BANDITS, LEARNED = "recent episodes of all actors", "windows learned from"
ARM_METRICS = (
    ("arm_return", "Mean return per arm", "points", BANDITS),
    ("arm_intrinsic_return", "Mean intrinsic return per arm", "r^i", "all actors' episodes"),
    ("batch_share", "Share of batches per arm", "share", LEARNED),
    ("td/extrinsic", "Extrinsic TD error per arm", "|delta|", LEARNED),
    ("td/intrinsic", "Intrinsic TD error per arm", "|delta|", LEARNED),
    ("td/joint", "TD error per arm", "|delta|", LEARNED),
    ("td/combined", "Combined TD error per arm", "|delta|", LEARNED),
    ("action_gap", "Lead of the best action per arm", "h(Q)", LEARNED),
    ("trace", "Trace coefficient per arm", "c", f"how far errors travel back; {LEARNED}"),
)


def arm_maps(run: RunHistory) -> list[Chart]:
    """Draw returns, shares of plays and batches, TD errors and leads per arm over training."""
    rows = [row for row in run.metrics if "arm_plays/0" in row]
    if not rows:
        return []
    rows = [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, MAX_COLUMNS).astype(int))]
    arms = range(len(run.arms))
    plays = np.array([[row.get(f"arm_plays/{j}", 0.0) for row in rows] for j in arms])
    shares = np.where(plays > 0, plays, np.nan) / np.maximum(plays.sum(0), 1)
    maps = [("Share of episodes per arm", "share", BANDITS, shares)]
    for name, title, unit, note in ARM_METRICS:
        values = np.array(
            [[row.get(f"{name}/{j}", np.nan) for row in rows] for j in arms], dtype=np.float64
        )
        if np.isfinite(values).any():
            maps.append((title, unit, note, values))
    frames = [row["frames"] for row in rows]
    chosen = dict(run.best_arms)
    best = [chosen.get(frame) for frame in frames]
    notes = [arm_note(arm) for arm in run.arms]
    return [_map(run, frames, best, notes, *described) for described in maps]


def _map(
    run: RunHistory,
    frames: list[float],
    best: list[float | None],
    notes: list[str],
    title: str,
    unit: str,
    note: str,
    values: Floats,
) -> Chart:
    chart: Chart = {
        "kind": "map",
        "title": title,
        "x": run.x_label,
        "y": "arm j",
        "unit": unit,
        "frames": frames,
        "rows": [rounded(row) for row in values],
        "best": best,
        "notes": notes,
        "note": f"{note}; 1 seed",
    }
    if not np.isfinite(values).any():
        chart["empty"] = "No episode has ended yet."
    return chart
