"""What the report draws, as plain containers: which series, which axes, which reference lines.

`data/report.js` draws them; nothing here knows about pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agent57.scores.aggregate import WINDOW_EPISODES, windowed_mean
from agent57.scores.published import AGENTS, baseline, published, suite_games
from agent57.storage.history import Points, RunHistory

Chart = dict[str, Any]

MAX_POINTS = 300  # of a series
MAX_COLUMNS = 60  # of a heat map
NEAR = 3.0  # a published score within this multiple of what is shown is shown from the start


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ in nothing but their seed."""

    label: str
    runs: list[RunHistory]

    @property
    def seeds(self) -> str:
        """How many, in words."""
        return "1 seed" if len(self.runs) == 1 else f"{len(self.runs)} seeds"


def thinned(points: Points, limit: int = MAX_POINTS) -> Points:
    """At most `limit` points, each the mean of its neighbours."""
    if len(points) <= limit:
        return points
    parts = np.array_split(np.array(points, dtype=np.float64), limit)
    return [(float(part[-1, 0]), float(part[:, 1].mean())) for part in parts]


def series(name: str, points: Points, colour: int, **more: Any) -> Chart:  # noqa: ANN401
    """One line of a chart; the values of a step line are picked, not averaged."""
    if more.get("is_step"):
        stride = -(-len(points) // MAX_POINTS)
        kept = points[::stride] if points else []
    else:
        kept = thinned(points)
    return {"name": name, "points": kept, "colour": colour, **more}


def metric_charts(
    runs: Sequence[RunHistory],
    title: str,
    y_label: str,
    names: dict[str, str],
    **more: Any,  # noqa: ANN401
) -> list[Chart]:
    """Metrics over training: one chart of all for one run, one chart each for several.

    `names` maps metrics to what they are called; those that no run has are left out.
    """
    present = {n: label for n, label in names.items() if any(run.column(n) for run in runs)}
    if len(runs) == 1:
        lines = [series(s, runs[0].column(n), i) for i, (n, s) in enumerate(present.items())]
        return [_chart(runs, title, y_label, lines, **more)] if lines else []
    charts = []
    for name, label in present.items():
        lines = [
            series(run_label(run), run.column(name), i)
            for i, run in enumerate(runs)
            if run.column(name)
        ]
        full_title = title if len(present) == 1 else f"{title}: {label}"
        charts.append(_chart(runs, full_title, y_label, lines, **more))
    return charts


def _chart(
    runs: Sequence[RunHistory],
    title: str,
    y_label: str,
    lines: list[Chart],
    **more: Any,  # noqa: ANN401
) -> Chart:
    return {
        "kind": "lines",
        "title": title,
        "x": runs[0].x_label,
        "y": y_label,
        "series": lines,
        "note": "1 seed" if len(runs) == 1 else f"{len(runs)} runs, 1 seed each",
        **more,
    }


def run_label(run: RunHistory) -> str:
    """A run among others."""
    return f"{run.path.name} ({run.config.run.agent}, seed {run.config.run.seed})"


def learning_chart(env: str, groups: Sequence[Group]) -> Chart:
    """Evaluator scores over training, mean over seeds with their range, beside known scores."""
    lines: list[Chart] = []
    window = score_window([run for group in groups for run in group.runs])
    for colour, group in enumerate(groups):
        curves = [curve for run in group.runs if (curve := score_curve(run, window))]
        if curves:
            mean, low, high = mean_and_range(curves)
            band = {"low": thinned(low), "high": thinned(high)} if len(curves) > 1 else {}
            lines.append(series(f"{group.label}, {group.seeds}", mean, colour, **band))
        actors = [points for run in group.runs if (points := run.column("episode/return"))]
        if actors:
            label = f"{group.label}, actors (exploring)"
            lines.append(series(label, mean_and_range(actors)[0], colour, is_faint=True))
    runs = groups[0].runs
    seeds = ", ".join(f"{group.label} {group.seeds}" for group in groups)
    chart = {
        "kind": "lines",
        "title": f"Score on {env}",
        "x": runs[0].x_label,
        "y": "return per episode (points)",
        "series": lines,
        "note": f"mean of the last {window} evaluation episodes; {seeds}"
        + ("; shaded: range over seeds" if any(len(g.runs) > 1 for g in groups) else ""),
        "is_large": True,
    }
    if env in suite_games("atari57"):
        scale = baseline(env, "agent57")
        chart["references"] = references(env, lines)
        chart["hns"] = {"human": scale.human, "random": scale.random}
    return chart


def references(env: str, lines: list[Chart]) -> list[Chart]:
    """Horizontal lines of what is known; those far above the data wait for a click."""
    scale = baseline(env, "agent57")
    known = {"human": scale.human, "random": scale.random}
    values = [value for line in lines for _, value in line["points"]] + list(known.values())
    low, high = min(values), max(values)
    rows = [{"name": name, "value": value, "is_shown": True} for name, value in known.items()]
    for agent, label in AGENTS.items():
        result = published(agent, env, "agent57")
        if result is not None:
            is_near = result.score <= low + NEAR * (high - low)
            rows.append({"name": label, "value": result.score, "is_shown": is_near})
    return rows


def score_window(runs: Sequence[RunHistory]) -> int:
    """Episodes behind a point of the curve: the paper's 50, or fewer if a run has few."""
    counts = [sum(row["phase"] == "evaluate" for row in run.episodes) for run in runs]
    fewest = min((count for count in counts if count), default=0)
    return int(np.clip(fewest // 4, 5, WINDOW_EPISODES))


def score_curve(run: RunHistory, window: int) -> Points:
    """Mean return of the last `window` evaluation episodes over frames."""
    rows = [(r["frames"], r["return"]) for r in run.episodes if r["phase"] == "evaluate"]
    if not rows:
        return []
    frames, returns = np.array(sorted(rows, key=lambda row: row[0]), dtype=np.float64).T
    ends, means = windowed_mean(frames, returns, window)
    return list(zip(ends.tolist(), means.tolist(), strict=True))


def mean_and_range(curves: list[Points]) -> tuple[Points, Points, Points]:
    """Mean, minimum and maximum of curves, where all of them have begun."""
    grid = np.unique(np.concatenate([[x for x, _ in curve] for curve in curves]))
    grid = grid[grid >= max(curve[0][0] for curve in curves)]
    values = np.stack([np.interp(grid, *np.array(curve, dtype=np.float64).T) for curve in curves])
    rows = (values.mean(0), values.min(0), values.max(0))
    mean, low, high = (list(zip(grid.tolist(), row.tolist(), strict=True)) for row in rows)
    return mean, low, high


def best_arm_charts(runs: Sequence[RunHistory]) -> list[Chart]:
    """The evaluator's best arm over training, and what it means (the paper's best-arm figure)."""
    arm_lines, beta_lines, horizon_lines = [], [], []
    for colour, run in enumerate(runs):
        points = run.column("evaluator/best_arm")
        if not points:
            continue
        label = run_label(run) if len(runs) > 1 else "best arm"
        notes = [
            f"beta {run.arms[int(arm)][0]:.4g}, gamma {run.arms[int(arm)][1]:.6g}"
            for arm in range(len(run.arms))
        ]
        arm_lines.append(series(label, points, colour, is_step=True, notes=notes))
        label = run_label(run) if len(runs) > 1 else "beta"
        beta_lines.append(series(label, run.column("evaluator/best_beta"), colour, is_step=True))
        gamma = run.column("evaluator/best_gamma")
        horizon = [(frames, 1 / (1 - value)) for frames, value in gamma]
        label = run_label(run) if len(runs) > 1 else "1 / (1 - gamma)"
        horizon_lines.append(series(label, horizon, colour, is_step=True))
    if not arm_lines:
        return []
    num_arms = max(len(run.arms) for run in runs)
    return [
        _chart(runs, "Best arm", "arm j", arm_lines, y_range=[0, max(1, num_arms - 1)]),
        _chart(runs, "Its weight of novelty", "beta", beta_lines),
        _chart(runs, "How far it looks ahead", "agent steps", horizon_lines, is_log=True),
    ]


def arm_maps(run: RunHistory) -> list[Chart]:
    """Returns, shares of plays and of batches, TD errors and leads per arm over training."""
    rows = [row for row in run.metrics if "arm_plays/0" in row]
    if not rows:
        return []
    rows = [rows[i] for i in np.unique(np.linspace(0, len(rows) - 1, MAX_COLUMNS).astype(int))]
    arms = range(len(run.arms))
    plays = np.array([[row.get(f"arm_plays/{j}", 0.0) for row in rows] for j in arms])
    shares = plays / np.maximum(plays.sum(0), 1)
    bandits, replayed = "all actors' bandits, over their windows", "of what was learned from"
    maps: dict[str, tuple[str, str, list[list[float | None]]]] = {
        "Share of episodes per arm": ("share", bandits, shares.tolist())
    }
    for name, title, unit, note in (
        ("arm_return", "Mean return per arm", "points", bandits),
        ("arm_intrinsic_return", "Mean intrinsic return per arm", "r^i", "all actors' episodes"),
        ("batch_share", "Share of batches per arm", "share", replayed),
        ("td/extrinsic", "Extrinsic TD error per arm", "mean |delta|", replayed),
        ("td/intrinsic", "Intrinsic TD error per arm", "mean |delta|", replayed),
        ("td/joint", "TD error per arm", "mean |delta|", replayed),
        ("action_gap", "Lead of the best action per arm", "Q", replayed),
        ("trace", "Trace coefficient per arm", "mean c", replayed),
    ):
        values = [[row.get(f"{name}/{j}") for row in rows] for j in arms]
        if any(value is not None for line in values for value in line):
            maps[title] = (unit, note, values)
    return [
        {
            "kind": "map",
            "title": title,
            "x": run.x_label,
            "y": "arm j",
            "unit": unit,
            "frames": [row["frames"] for row in rows],
            "rows": values,
            "notes": [f"beta {beta:.4g}, gamma {gamma:.6g}" for beta, gamma in run.arms],
            "note": f"{note}; {run_label(run)}",
        }
        for title, (unit, note, values) in maps.items()
    ]
