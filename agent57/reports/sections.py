"""The sections of a report: what each says about the runs, as plain containers."""

import base64
from collections.abc import Sequence
from typing import Any

from agent57.config import ConfigError
from agent57.presets import difference, flatten, make_config
from agent57.reports.charts import (
    Group,
    arm_maps,
    best_arm_charts,
    learning_chart,
    metric_charts,
    run_label,
)
from agent57.scores.aggregate import paper_score
from agent57.scores.published import AGENTS, baseline, human_normalised, published, suite_games
from agent57.storage.history import RunHistory
from agent57.terminal.live import duration

Section = dict[str, Any]

MAX_DETAILED = 6  # more runs than this are compared by their scores alone
MAX_VIDEO_BYTES = 40_000_000  # of all videos of a page
VIDEOS = {".mp4": "video/mp4", ".gif": "image/gif"}
TRAINED = ("extrinsic", "intrinsic", "joint", "inverse_dynamics", "rnd")


def overview(runs: Sequence[RunHistory]) -> Section:
    """A card per run."""
    cards = []
    for run in runs[:MAX_DETAILED]:
        latest = run.latest
        arm = latest.get("evaluator/best_arm")
        facts = {
            run.x_label: f"{latest.get('frames', 0):,} of {run.config.run.frames:,}",
            "updates": f"{latest.get('updates', 0):,}",
            "trained for": duration(latest.get("seconds", 0.0)),
            "evaluator, last 5 episodes": _number(latest.get("evaluator/return")),
            "best arm": "-" if arm is None else _arm(run, int(arm)),
            "scale": run.config.run.scale,
        }
        if run.env in suite_games("atari57") and "evaluator/return" in latest:
            hns = human_normalised(latest["evaluator/return"], run.env, "agent57")
            facts["human-normalised"] = f"{100 * hns:.1f} %"
        cards.append({"title": f"{run.env}: {run_label(run)}", "facts": facts})
    section: Section = {"title": "Overview", "cards": cards}
    if len(runs) > MAX_DETAILED:
        section["text"] = f"The first {MAX_DETAILED} of {len(runs)} runs."
    return section


def _arm(run: RunHistory, arm: int) -> str:
    beta, gamma = run.arms[arm]
    return f"{arm} (beta {beta:.4g}, gamma {gamma:.6g})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def learning(env: str, members: Sequence[Group]) -> Section:
    """The learning curve, and the scores by the paper's rule beside the published ones."""
    is_known = env in suite_games("atari57")

    def hns(score: float) -> str:
        return f"{100 * human_normalised(score, env, 'agent57'):.1f}" if is_known else "-"

    rows = []
    for group in members:
        seeds = [run.episodes for run in group.runs if run.has_scores]
        if not seeds:
            rows.append([group.label, "no evaluation yet", "-", "-", group.seeds])
            continue
        score = paper_score(seeds)
        best = f"{score.score:,.1f} ± {score.deviation:,.1f}"
        final = f"{score.final:,.1f} ± {score.final_deviation:,.1f}"
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
    return {
        "title": f"Learning: {env}",
        "charts": [learning_chart(env, members)],
        "tables": [{"head": heads, "rows": rows}],
        "text": "Best: mean return of the last 50 evaluation episodes, mean over seeds, maximum "
        "over training. Final: the last 50. ± is the deviation over seeds.",
    }


def arms(runs: Sequence[RunHistory]) -> Section:
    """Which arms were best and which were played, for runs that have several."""
    runs = [run for run in runs if len(run.arms) > 1]
    if not runs:
        return {"title": "Arms"}
    charts = best_arm_charts(runs) + [chart for run in runs for chart in arm_maps(run)]
    return {
        "title": "Arms: which policy of the family plays",
        "text": "Arm 0 only seeks reward and looks furthest; the last arm seeks novelty most.",
        "charts": charts,
    }


def curiosity(runs: Sequence[RunHistory]) -> Section:
    """Extrinsic beside intrinsic: rewards and values, and where the intrinsic reward comes from."""
    shown = {
        "reward/extrinsic": ("Extrinsic reward", "points per agent step"),
        "reward/intrinsic": ("Intrinsic reward", "r^i per agent step"),
        "value/extrinsic": ("Extrinsic value", "Q^e, transformed by h"),
        "value/intrinsic": ("Intrinsic value", "Q^i, transformed by h"),
        "value/joint": ("Value", "Q, transformed by h"),
        "curiosity/novelty": ("Episodic novelty", "novelty within the episode"),
        "curiosity/modulation": ("Life-long modulation", "RND factor, 1 to 5"),
    }
    charts = [
        chart
        for name, (title, unit) in shown.items()
        for chart in metric_charts(runs, title, unit, {name: title.lower()})
    ]
    limits = {
        "curiosity/familiar": "least novelty",
        "curiosity/modulation_at_1": "modulation 1",
        "curiosity/modulation_at_max": "largest modulation",
    }
    charts += metric_charts(runs, "Novelty at its limits", "share of steps", limits, y_range=[0, 1])
    return {"title": "Reward and novelty", "charts": charts}


def training(runs: Sequence[RunHistory]) -> Section:
    """Losses, gradients, priorities, throughput."""

    def named(prefix: str) -> dict[str, str]:
        return {f"{prefix}/{name}": name.replace("_", " ") for name in TRAINED}

    priorities = {
        "priority/mean": "new, mean",
        "priority/max": "new, largest",
        "priority/stored": "held, mean",
        "priority/drawn": "drawn, mean",
    }
    windows = {"replay/windows": "held", "replay/effective_windows": "effective"}
    memory = {"memory/resident_bytes": "whole process, in RAM", "replay/bytes": "replay"}
    transitions = {"replay/transitions": "kept", "replay/age": "age of a drawn window"}
    return {
        "title": "Training",
        "charts": [
            *metric_charts(runs, "Losses", "loss", named("loss"), is_log=True),
            *metric_charts(runs, "Gradient norms", "norm", named("gradient_norm"), is_log=True),
            *metric_charts(
                runs, "Clipped gradients", "fraction of updates", named("clipped"), y_range=[0, 1]
            ),
            *metric_charts(runs, "Priorities", "priority", priorities, is_log=True),
            *metric_charts(runs, "TD error", "mean |delta|", {"td/mean_abs": "TD error"}),
            *metric_charts(
                runs, "Online less target values", "mean |difference|", named("target_difference")
            ),
            *metric_charts(
                runs, "Throughput", "frames per second", {"frames_per_second": "frames/s"}
            ),
            *metric_charts(runs, "Replay", "transitions", transitions),
            *metric_charts(runs, "Windows", "windows", windows, is_log=True),
            *metric_charts(runs, "Memory", "bytes", memory),
        ],
    }


def films(runs: Sequence[RunHistory]) -> Section:
    """Videos found in the run folders, inside the page."""
    found: list[Section] = []
    left = MAX_VIDEO_BYTES
    for run in runs:
        for file in sorted([*run.path.glob("*.*"), *run.path.glob("videos/*.*")]):
            if file.suffix not in VIDEOS:
                continue
            left -= file.stat().st_size
            if left < 0:
                return {"title": "Episodes", "videos": found, "text": "More videos did not fit."}
            content = base64.b64encode(file.read_bytes()).decode()
            source = f"data:{VIDEOS[file.suffix]};base64,{content}"
            found.append({"title": f"{run_label(run)}: {file.name}", "source": source})
    return {"title": "Episodes", "videos": found} if found else {"title": "Episodes"}


def settings(runs: Sequence[RunHistory]) -> Section:
    """The configuration and its difference to the preset it started from."""
    tables: list[Section] = []
    for run in runs:
        preset = f"{run.config.run.agent} at {run.config.run.scale} scale"
        try:
            standard = make_config(run.config.run.agent, run.config.run.scale)
        except ConfigError:  # of another version of this program
            continue
        changed = difference(run.config, standard)
        rows = [[name, _text(ours), _text(theirs)] for name, (ours, theirs) in changed.items()]
        head = ["differs from the preset", run.path.name, preset]
        tables.append({"title": run_label(run), "head": head, "rows": rows})
        everything = [[name, _text(value)] for name, value in flatten(run.config).items()]
        tables.append(
            {"title": "All settings", "head": ["", ""], "rows": everything, "is_folded": True}
        )
    return {"title": "Settings", "tables": tables}


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
