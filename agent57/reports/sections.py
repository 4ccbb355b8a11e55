"""The sections of a page about runs, as plain containers: cards, marks, charts, tables, videos."""

import base64
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent57.config import Config, ConfigError
from agent57.presets import difference, flatten, make_config
from agent57.reports.advice import ADVICE
from agent57.reports.charts import (
    Chart,
    Group,
    Line,
    arm_maps,
    arm_note,
    as_curve,
    best_arm_charts,
    learning_chart,
    line_chart,
    metric_charts,
    run_label,
    score_window,
    seeds_note,
)
from agent57.reports.health import marks
from agent57.scores.aggregate import paper_score, plus_minus
from agent57.scores.published import AGENTS, baseline, human_normalised, published, suite_games
from agent57.storage.history import RunHistory
from agent57.terminal.live import duration

Section = dict[str, Any]

MAX_DETAILED = 6  # if there are more groups of runs, only their scores are compared
MAX_VIDEO_BYTES = 40_000_000  # limit for all videos of a page together
VIDEOS = {".mp4": "video/mp4", ".gif": "image/gif"}
TRAINED = (  # networks and losses, as metrics name them
    *("extrinsic", "intrinsic", "joint", "combined", "shared", "policy"),
    *("inverse_dynamics", "rnd"),
)


def overview(runs: Sequence[RunHistory]) -> Section:
    """Return a card per run, with its marks of health."""
    cards = []
    for run in runs[:MAX_DETAILED]:
        latest = run.latest
        arm = latest.get("evaluator/best_arm")
        facts = {
            run.x_label: f"{latest.get('frames', 0):,} of {run.config.run.frames:,}",
            "updates": f"{latest.get('updates', 0):,}",
            "trained for": duration(latest.get("seconds", 0.0)),
            "frames per second": _number(latest.get("frames_per_second")),
            "evaluator, last 5 episodes": _number(latest.get("evaluator/return")),
            "best arm": "-",
            "scale": run.config.run.scale,
        }
        if arm is not None and 0 <= arm < len(run.arms):
            facts["best arm"] = f"{int(arm)} ({arm_note(run.arms[int(arm)])})"
        if run.damage:
            facts["damage"] = "; ".join(run.damage)
        if run.env in suite_games("atari57") and "evaluator/return" in latest:
            hns = human_normalised(latest["evaluator/return"], run.env, "agent57")
            facts["human-normalised"] = f"{100 * hns:.1f} %"
        title = f"{run.env}: {run_label(run)}"
        cards.append({"title": title, "facts": facts, "marks": marks(run)})
    section: Section = {"title": "Overview", "cards": cards}
    if len(runs) > MAX_DETAILED:
        section["text"] = f"The first {MAX_DETAILED} of {len(runs)} runs."
    return section


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def learning(env: str, members: Sequence[Group], shown: Sequence[Group]) -> Section:
    """Return the learning curve of the shown records, and all scores with published ones."""
    is_known = env in suite_games("atari57")
    members, shown = (
        [replace(group, label=group.label.removesuffix(f" on {env}")) for group in found]
        for found in (members, shown)
    )

    def hns(score: float) -> str:
        return f"{100 * human_normalised(score, env, 'agent57'):.1f}" if is_known else "-"

    rows = []
    for group in members:
        seeds = [run.episodes for run in group.runs if run.has_scores]
        if not seeds:
            rows.append([group.label, "no evaluation yet", "-", "-", group.seeds])
            continue
        score = paper_score(seeds)
        best = plus_minus(score.score, score.deviation, len(seeds))
        final = plus_minus(score.final, score.final_deviation, len(seeds))
        full = "" if score.is_window_full else f", only {min(score.num_episodes)} episodes"
        rows.append([group.label, best, final, hns(score.score), f"{group.seeds}{full}"])
    if is_known:
        scale = baseline(env, "agent57")
        rows.append(["human", f"{scale.human:,.1f}", "", "100.0", "published"])
        rows.append(["random", f"{scale.random:,.1f}", "", "0.0", "published"])
        for agent, label in AGENTS.items():
            known = published(agent, env, "agent57")
            if known is not None:
                rows.append([label, f"{known.score:,.1f}", "", hns(known.score), "published"])
    heads = ["", "best (paper's rule)", "final", "HNS, %", "seeds"]
    if not is_known:  # no human score is known
        for row in (heads, *rows):
            del row[3]
    return {
        "title": f"Learning: {env}",
        "charts": [learning_chart(env, shown, score_window(members))],
        "tables": [{"head": heads, "rows": rows}],
        "text": "Best: mean return of the last 50 evaluation episodes, mean over seeds, maximum "
        "over training. Final: the last 50. ± is the deviation over seeds.",
    }


def arms(groups: Sequence[Group]) -> Section:
    """Return which arms were best and which were played, for runs with several arms."""
    groups = [group for group in groups if len(group.runs[0].arms) > 1]
    if not groups:
        return {"title": "Arms"}
    runs = [run for group in groups for run in group.runs]
    parts = [{"title": run_label(run), "charts": arm_maps(run)} for run in runs[:MAX_DETAILED]]
    section: Section = {
        "title": "Arms: which policy of the family plays",
        "text": "Arm 0 only seeks reward and looks furthest; the last arm seeks novelty most.",
        "charts": best_arm_charts(groups),
    }
    if len(runs) == 1:
        section["charts"] = parts[0]["charts"][:2] + section["charts"] + parts[0]["charts"][2:]
    else:
        section["parts"] = [part for part in parts if part["charts"]]
    return section


def value_charts(groups: Sequence[Group]) -> list[Chart]:
    """Compare the sizes of extrinsic and intrinsic values: draw Q^e and beta x Q^i."""
    charts = []
    for group in groups:
        lines = []
        extrinsic = [as_curve(p) for run in group.runs if (p := run.column("value/extrinsic"))]
        intrinsic = [as_curve(p) for run in group.runs if (p := run.column("value/intrinsic"))]
        if not extrinsic or not intrinsic or not any(beta for beta, _ in group.runs[0].arms):
            continue
        lines.append(Line(name="Q^e", curves=extrinsic, colour=0))
        arms_by_beta: dict[str, list[int]] = defaultdict(list)
        for arm, (beta, _) in enumerate(group.runs[0].arms):
            arms_by_beta[f"{beta:.2g}"].append(arm)
        weights = [weight for weight in arms_by_beta if float(weight) > 0]
        shown = sorted({weights[len(weights) // 2], weights[-1]}, key=float)
        for colour, weight in enumerate(shown, 1):
            curves = [(frames, float(weight) * values) for frames, values in intrinsic]
            name = f"{weight} x Q^i ({_arms(arms_by_beta[weight])})"
            lines.append(Line(name=name, curves=curves, colour=colour))
        title = "Pull of the values" + (f": {group.label}" if len(groups) > 1 else "")
        note = "extrinsic value beside beta x intrinsic value, mean over batches; "
        note += seeds_note([group])
        charts.append(line_chart(title, group.runs[0].x_label, "h(Q)", lines, note))
    return charts


def _arms(arms: list[int]) -> str:
    """Return a name for consecutive arms."""
    return f"arm {arms[0]}" if len(arms) == 1 else f"arms {arms[0]} to {arms[-1]}"


def curiosity(groups: Sequence[Group]) -> Section:
    """Return charts of both rewards and values, and of the factors of the intrinsic reward."""
    shown = {
        "curiosity/novelty": (
            "Episodic novelty",
            "novelty",
            "how new states are within an episode",
        ),
        "curiosity/modulation": ("Life-long novelty", "factor", "RND: 1 is known, 5 is new"),
        "reward/extrinsic": ("Extrinsic reward", "points", "reward of the task per agent step"),
        "reward/intrinsic": ("Intrinsic reward", "r^i", "product of both novelties per agent step"),
        "value/extrinsic": ("Extrinsic value", "h(Q^e)", "mean over actions and batches"),
        "value/intrinsic": ("Intrinsic value", "h(Q^i)", "mean over actions and batches"),
        "value/joint": ("Value", "h(Q)", "mean over actions and batches"),
    }
    charts = value_charts(groups)
    charts += [
        chart
        for name, (title, unit, about) in shown.items()
        for chart in metric_charts(groups, title, unit, {name: title.lower()}, about)
    ]
    limits = {
        "curiosity/familiar": "state counts as known",
        "curiosity/modulation_at_1": "life-long factor at its least",
        "curiosity/modulation_at_max": "life-long factor at its most",
    }
    title, about = "Novelty at its limits", "states that novelty cannot tell apart"
    charts += metric_charts(groups, title, "share of steps", limits, about, y_range=[0, 1])
    return {"title": "Reward and novelty", "charts": charts}


def training(groups: Sequence[Group]) -> Section:
    """Return charts of losses, gradients, priorities, replay, throughput and memory."""

    def named(prefix: str) -> dict[str, str]:
        return {f"{prefix}/{name}": name.replace("_", " ") for name in TRAINED}

    def draw(
        title: str, y_label: str, names: dict[str, str], about: str, **more: object
    ) -> list[Chart]:
        return metric_charts(groups, title, y_label, names, about, **more)

    priorities = {
        "priority/mean": "new, mean",
        "priority/max": "new, largest",
        "priority/stored": "held, mean",
        "priority/drawn": "drawn, mean",
    }
    windows = {"replay/windows": "held", "replay/effective_windows": "effective"}
    memory = {"memory/resident_bytes": "whole process, in RAM", "replay/bytes": "replay"}
    transitions = {"replay/transitions": "kept", "replay/age": "age of a drawn window"}
    churn = {"churn/values": "of the values", "churn/policy": "of the distilled policy"}
    dropped = {"trust_region/dropped": "rows without a loss"}
    speed = {"frames_per_second": "frames/s"}
    actors = {
        "cluster/actors_playing": "playing",
        "cluster/actors_held_back": "held back",
        "cluster/actors_without_place": "waiting for a machine",
    }
    return {
        "title": "Training",
        "charts": [
            *draw("Losses", "loss", named("loss"), "by network", is_log=True),
            *draw("Gradient norms", "norm", named("gradient_norm"), "before clipping", is_log=True),
            *draw(
                "Clipped gradients",
                "share of updates",
                named("clipped"),
                "gradients above learner.clip_norm",
                y_range=[0, 1],
            ),
            *draw("Priorities", "priority", priorities, "windows of the replay", is_log=True),
            *draw("TD error", "|delta|", {"td/mean_abs": "TD error"}, "as in the priorities"),
            *draw(
                "Distance to the target networks",
                "h(Q)",
                named("target_difference"),
                "mean |online - target|",
            ),
            *draw("Churn", "share of rows", churn, "greedy actions that one update changes"),
            *draw("Trust region", "share of rows", dropped, "values too far from the target"),
            *draw("Throughput", "frames per second", speed, "since the line before"),
            *draw("Actors", "actors", actors, "processes of the cluster"),
            *draw("Replay", "transitions", transitions, "steps held, and how old a draw is"),
            *draw("Windows", "windows", windows, "effective: as if drawn uniformly", is_log=True),
            *draw("Memory", "bytes", memory, "of the process that learns"),
        ],
    }


def advice() -> Section:
    """Return the advice that marks of health link to."""
    entries = [
        {
            "anchor": entry.anchor,
            "title": entry.title,
            "parts": {
                "look at": entry.look_at,
                "healthy": entry.healthy,
                "otherwise": entry.otherwise,
            },
        }
        for entry in ADVICE
    ]
    text = "Symptoms of a run and what to change. Marks of health link here."
    return {"title": "Advice", "text": text, "advice": entries}


def _is_own_file(folder: Path, file: Path) -> bool:
    """Whether a file really is in the run folder: a link may lead to any file of this machine."""
    return file.is_file() and folder.resolve() in file.resolve().parents


def films(runs: Sequence[RunHistory]) -> Section:
    """Return the videos of the run folders, embedded in the page."""
    found: list[Section] = []
    left = MAX_VIDEO_BYTES
    for run in runs:
        for file in sorted([*run.path.glob("*.*"), *run.path.glob("videos/*.*")]):
            if file.suffix not in VIDEOS or not _is_own_file(run.path, file):
                continue
            left -= file.stat().st_size
            if left < 0:
                return {"title": "Episodes", "videos": found, "text": "More videos did not fit."}
            content = base64.b64encode(file.read_bytes()).decode()
            source = f"data:{VIDEOS[file.suffix]};base64,{content}"
            found.append({"title": f"{run_label(run)}: {file.name}", "source": source})
    return {"title": "Episodes", "videos": found} if found else {"title": "Episodes"}


def settings(groups: Sequence[Group]) -> Section:
    """Return the configuration of each group, and its differences from its preset."""
    tables: list[Section] = []
    for group in groups:
        run = group.runs[0]
        preset = f"{run.config.run.agent} at {run.config.run.scale} scale"
        try:
            standard = _standard(run.config)
        except ConfigError:  # the preset is from another version of agent57
            continue
        changed = difference(run.config, standard)
        rows = [[name, _text(ours), _text(theirs)] for name, (ours, theirs) in changed.items()]
        head = ["differs from the preset", run.path.name, preset]
        tables.append({"title": run_label(run), "head": head, "rows": rows})
        everything = [[name, _text(value)] for name, value in flatten(run.config).items()]
        title = f"All settings of {run_label(run)}"
        tables.append({"title": title, "head": ["", ""], "rows": everything, "is_folded": True})
    return {"title": "Settings", "tables": tables}


def _standard(config: Config) -> Config:
    """Return the defaults that a configuration started from."""
    return make_config(config.run.agent, config.run.scale, config.run.kind)


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
