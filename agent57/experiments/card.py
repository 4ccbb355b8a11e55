"""Cards: Markdown with the runs of an experiment, their machine and their results."""

import math
import os
import subprocess
from pathlib import Path

from agent57 import __version__
from agent57.experiments.experiment import Budget, Experiment, Outcome, Results, Verdict
from agent57.presets import difference, options
from agent57.storage.machine import processor
from agent57.terminal.live import duration

NOTES_FILE = "NOTES.md"  # notes written by hand, appended to every new card in the same folder


def git_commit() -> str:
    """Return the commit of this code, marked if the package has changes; unknown outside git."""
    package = Path(__file__).parents[1]
    try:
        commit = _git(package, "rev-parse", "--short=10", "HEAD")
        changes = _git(package, "status", "--porcelain", "--", str(package))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}+changes" if changes else commit


def _git(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *args], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def machine() -> str:
    """Return cores, processor and memory; nothing that identifies the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{os.cpu_count()} cores, {processor()}, {memory / 2**30:.0f} GB"


def write_card(
    file: Path,
    experiment: Experiment,
    budget_name: str,
    results: Results,
    verdicts: list[Verdict],
    figures: list[str],
    weights: str,
) -> None:
    """Write the card of an experiment; it ends with the notes of its folder."""
    budget = experiment.budgets[budget_name]
    outcomes = [outcome for group in results.values() for outcome in group]
    commits = ", ".join(sorted({outcome.commit for outcome in outcomes}))
    seeds = ", ".join(str(seed) for seed in range(budget.num_seeds))
    parts = [
        f"# {experiment.name}",
        f"Claim of the paper: {experiment.claim}.",
        "\n".join(f"- **{v.word}**: {v.goal}: {v.value:,.4g}" for v in verdicts),
        *(f"![{name}]({name}.png)" for name in figures),
        "Score: mean return of the final policy (the surest arm of the evaluator, epsilon "
        f"{experiment.epsilon:g}) over {budget.num_episodes} episodes played after training. "
        f"Evaluator: mean of its last {experiment.recent_episodes} evaluation episodes during "
        "training.",
        _run_table(outcomes),
        *([_arm_table(results)] if experiment.scores_arms else []),
        *_room_lines(results),
        "\n".join(
            [
                f"- command: `agent57 reproduce {experiment.name} --budget {budget_name} "
                f"--seeds {budget.num_seeds}`",
                *(
                    f"- task: `{task}`, {budget.frames_of(task):,} frames a run, seeds {seeds}"
                    for task in experiment.tasks
                ),
                f"- training time, summed over runs: {duration(_seconds(outcomes))}",
                f"- machine: {machine()}",
                f"- agent57 {__version__}, commit {commits}",
                f"- data: [{data_name(experiment)}]({data_name(experiment)}), "
                "[curve.csv](curve.csv), [arms.csv](arms.csv)",
                f"- weights: {weights}",
            ]
        ),
        "## Settings",
        _settings(experiment, budget, list(results)),
        *_notes(file.parent),
    ]  # fmt: skip
    file.write_text("\n\n".join(parts) + "\n", "utf-8")


def write_weights_card(file: Path, experiment: Experiment, outcome: Outcome, score: float) -> None:
    """Write a card that says what a folder of weights is and how to use it."""
    beta, gamma = outcome.beta_gamma
    config = experiment.config(outcome.label, outcome.seed, outcome.frames)
    file.write_text(
        f"# {experiment.name}: {outcome.label}, seed {outcome.seed}\n\n"
        f"- task: `{experiment.task(outcome.label)}`\n"
        f"- mean return: {score:,.4g} with arm {outcome.best_arm} (beta {beta:.4g}, gamma "
        f"{gamma:.6g}), epsilon {experiment.epsilon:g}, measured with these weights\n"
        f"- trained: {outcome.frames:,} frames in {duration(outcome.seconds)}\n"
        f"- command: `agent57 train {' '.join(options(config))}`\n"
        f"- agent57 {__version__}, commit {outcome.commit}\n\n"
        "Networks only, in half precision, without replay: `agent57.load` and `agent57 evaluate` "
        "take this folder, `agent57 resume` does not.\n",
        "utf-8",
    )


def _settings(experiment: Experiment, budget: Budget, labels: list[str]) -> str:
    """Return the defaults of all runs, then each contestant's differences and command."""
    lines = [
        f"Runs start from the defaults: `agent57 presets agent57 --scale {experiment.scale} "
        f"--env {experiment.tasks[0]}` prints them.",
        "",
    ]
    for label in labels:
        config = experiment.config(label, 0, budget.frames_of(experiment.task(label)))
        changed = {
            name: values
            for name, values in difference(config, experiment.default(label)).items()
            if name != "run.frames"
        }
        text = ", ".join(
            f"{name} {ours} (default {theirs})" for name, (ours, theirs) in changed.items()
        )
        preset = f"the defaults of {config.run.agent}"
        lines.append(f"- {label}: {preset}{f' with {text}' if text else ''}")
        lines.append(f"  `agent57 train {' '.join(options(config))}`")
    return "\n".join(lines)


def _notes(folder: Path) -> list[str]:
    file = folder / NOTES_FILE
    return [file.read_text("utf-8").strip()] if file.exists() else []


def data_name(experiment: Experiment) -> str:
    """Return the name of the file with one row per run."""
    return f"{experiment.name.replace('-', '_')}.csv"


def _seconds(outcomes: list[Outcome]) -> float:
    return sum(o.seconds for o in outcomes if math.isfinite(o.seconds))


def _run_table(outcomes: list[Outcome]) -> str:
    rows = ["| contestant | seed | score | evaluator | best arm | frames | time |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for o in outcomes:
        beta, gamma = o.beta_gamma
        arm = f"{o.best_arm} (beta {beta:.3g}, gamma {gamma:.5g})"
        rows.append(
            f"| {o.label} | {o.seed} | {o.score:,.4g} | {o.evaluator:,.4g} | {arm} | "
            f"{o.frames:,} | {duration(o.seconds)} |"
        )
    return "\n".join(rows)


def _room_lines(results: Results) -> list[str]:
    """List the rooms that the final episodes visited, if a game's rooms are known."""
    lines = []
    for label, outcomes in results.items():
        episodes = [seen for outcome in outcomes for seen in outcome.rooms]
        if episodes:
            rooms = sorted(set().union(*episodes))
            most = max(len(seen) for seen in episodes)
            lines.append(
                f"- {label}: the final episodes saw rooms {', '.join(map(str, rooms))}; "
                f"at most {most} in one episode"
            )
    return ["\n".join(lines)] if lines else []


def _arm_table(results: Results) -> str:
    """Return a table of each arm's mean final return over seeds."""
    rows = ["| contestant | arm | beta | gamma | score |", "|---|---|---|---|---|"]
    for label, outcomes in results.items():
        for arm, (beta, gamma) in enumerate(outcomes[0].arms):
            score = sum(o.arm_scores[arm] for o in outcomes) / len(outcomes)
            rows.append(f"| {label} | {arm} | {beta:.3g} | {gamma:.5g} | {score:,.4g} |")
    return "\n".join(rows)
