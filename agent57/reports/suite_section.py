"""The section of a report about a whole suite."""

from typing import Any

from agent57.scores.aggregate import plus_minus
from agent57.scores.published import STATISTICS

Section = dict[str, Any]

SHOWN = {"iqm": "IQM", "median": "Median", "mean": "Mean", "capped_mean": "Capped mean"}
RULES = {"paper": "best over training (the paper's rule)", "final": "final performance"}


def suite_section(results: dict[str, Any]) -> Section:
    """Return scores of every game and agent, aggregates with intervals, performance profiles."""
    coverage = results["coverage"]["text"].capitalize()
    section: Section = {
        "title": "Suite",
        "text": f"{coverage}. Human-normalised by the {results['reference']} table; 0 is random, "
        "100 % is human. Intervals: 95 %, stratified bootstrap.",
        "charts": [],
        "tables": [_scores(results)],
    }
    for rule, title in RULES.items():
        agents = results["aggregates"][rule]["agents"]
        if not agents:
            continue
        section["charts"].append(_intervals(agents, title))
        section["charts"].append(_profile(results["aggregates"][rule], title))
        section["tables"].append(_statistics(agents, title))
    improvements = results["aggregates"]["paper"]["probability_of_improvement"]
    if improvements:
        rows = [
            {"name": f"{row['better']} over {row['worse']}", "colour": 0, **_ends(row, 1)}
            for row in improvements
        ]
        section["charts"].append(
            {
                "kind": "intervals",
                "title": "Probability of improvement",
                "x": "P(a run of the first beats a run of the second)",
                "rows": rows,
                "note": RULES["paper"],
            }
        )
    return section


def _ends(estimate: dict[str, Any], factor: float) -> dict[str, float | None]:
    return {
        name: None if estimate[name] is None else factor * estimate[name]
        for name in ("point", "low", "high")
    }


def _intervals(agents: dict[str, Any], title: str) -> Section:
    rows = [
        {"name": f"{label}, {agent}", "colour": i, **_ends(values["statistics"][name], 100)}
        for name, label in SHOWN.items()
        for i, (agent, values) in enumerate(agents.items())
    ]
    return {
        "kind": "intervals",
        "title": f"Aggregates, {title}",
        "x": "human-normalised score, %",
        "rows": rows,
        "note": _coverage(agents),
    }


def _coverage(agents: dict[str, Any]) -> str:
    return "; ".join(f"{agent}: {values['coverage']}" for agent, values in agents.items())


def _profile(aggregates: dict[str, Any], title: str) -> Section:
    data: list[list[float]] = [[100 * value for value in aggregates["thresholds"]]]
    series: list[Section] = []
    for colour, (agent, values) in enumerate(aggregates["agents"].items()):
        rows = values["profile"]
        has_band = rows[0]["low"] is not None
        data += [
            [row[end] for row in rows] for end in ("point", "low", "high")[: 3 if has_band else 1]
        ]
        series.append({"name": agent, "colour": colour, "has_band": has_band})
    return {
        "kind": "lines",
        "title": f"Performance profile, {title}",
        "x": "human-normalised score, %",
        "y": "fraction of runs above",
        "series": series,
        "data": data,
        "x_range": [data[0][0], data[0][-1]],
        "y_range": [0, 1],
        "note": _coverage(aggregates["agents"]),
    }


def _scores(results: dict[str, Any]) -> Section:
    head = [
        "game",
        "agent",
        "best (paper's rule)",
        "final",
        "HNS, %",
        "CHNS, %",
        "seeds",
        "episodes",
    ]
    rows = []
    for row in results["scores"]:
        hns = ["-" if row[n] is None else f"{100 * row[n]:.1f}" for n in ("hns", "chns")]
        best = plus_minus(row["score"], row["deviation"], row["seeds"])
        final = plus_minus(row["final"], row["final_deviation"], row["seeds"])
        is_full = row["episodes"] >= row["window_episodes"]
        episodes = f"{row['episodes']}{'' if is_full else ' (window not full)'}"
        rows.append([row["game"], row["agent"], best, final, *hns, row["seeds"], episodes])
    for row in results.get("unscored", ()):
        rows.append([row["game"], row["agent"], "no evaluation yet", "-", "-", "-", 0, 0])
    return {"title": "Scores", "head": head, "rows": rows}


def _statistics(agents: dict[str, Any], title: str) -> Section:
    names = {**STATISTICS, "iqm": "IQM", "optimality_gap": "Optimality gap"}
    rows = []
    for name, label in names.items():
        cells = []
        for values in agents.values():
            factor = 1 if name == "games_above_human" else 100
            ends = _ends(values["statistics"][name], factor)
            interval = "" if ends["low"] is None else f" [{ends['low']:.1f}, {ends['high']:.1f}]"
            cells.append(f"{ends['point']:.1f}{interval}")
        rows.append([label, *cells])
    return {"title": f"Aggregates in %, {title}", "head": ["", *agents], "rows": rows}
