"""Performs an experiment: trains all contestants, scores them, writes data, figures and card.

RUNS/<contestant>-seed<k>    the runs; what had begun is resumed, what had finished is left alone
RUNS/plan.json               with which options each was begun
OUT/                         README.md, CSV, figures, weights
"""

import csv
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent57.config import ConfigError, EnvConfig, require
from agent57.envs.make import check_env
from agent57.experiments.card import data_name, git_commit, write_card, write_weights_card
from agent57.experiments.experiment import Budget, Experiment, Outcome, Results, Verdict
from agent57.experiments.jobs import Job, JobQueue
from agent57.experiments.measure import episode_returns, measure
from agent57.experiments.weights import export_weights
from agent57.storage.folder import write_atomic
from agent57.terminal.progress import ProgressView
from agent57.trained.trained_run import TrainedRun

PLAN_FILE = "plan.json"

Key = tuple[str, int]  # label and seed


def reproduce(
    experiment: Experiment,
    budget_name: str,
    runs: Path,
    out: Path,
    num_parallel: int,
    console: Console,
) -> bool:
    """Train, score, compare; whether the paper's claim was seen."""
    budget = experiment.budgets[budget_name]
    check_env(EnvConfig(name=experiment.env))
    planned = jobs(experiment, budget, runs, num_parallel)
    commits = check_plan(experiment, planned, runs)
    make_folder(out)
    JobQueue(list(planned.values()), num_parallel, console).run()
    results = score(experiment, budget, planned, commits, console)
    verdicts = [criterion.judge(results) for criterion in experiment.criteria]
    write_tables(experiment, results, out)
    figures = experiment.draw(experiment, budget, results, out)
    weights = keep_weights(experiment, budget, results[experiment.subject], out)
    card = out / "README.md"
    write_card(card, experiment, budget_name, results, verdicts, figures, weights)
    show(experiment, results, verdicts, console)
    return all(verdict.is_met for verdict in verdicts)


def jobs(experiment: Experiment, budget: Budget, runs: Path, num_parallel: int) -> dict[Key, Job]:
    """Every run, one seed of all contestants before the next. Cores are shared out evenly."""
    num_runs = len(experiment.contestants) * budget.num_seeds
    num_threads = max(1, (os.cpu_count() or 1) // min(num_parallel, num_runs))
    return {
        (label, seed): Job(
            name=f"{label}, seed {seed}",
            folder=runs / folder_name(label, seed),
            options=("--run.threads", str(num_threads), *experiment.options(label, seed)),
            frames=budget.frames,
        )
        for seed in range(budget.num_seeds)
        for label in experiment.contestants
    }


def folder_name(label: str, seed: int) -> str:
    """Where a run lives."""
    return re.sub(r"[^a-z0-9.]+", "-", f"{label} seed{seed}".lower())


def check_plan(experiment: Experiment, planned: dict[Key, Job], runs: Path) -> dict[Key, str]:
    """Refuse to mix runs of different settings; the commit each run was begun with.

    More contestants, seeds or frames are welcome.
    """
    file = runs / PLAN_FILE
    try:
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    except ValueError:
        raise ConfigError(f"{file} is damaged") from None
    commit = git_commit()
    commits: dict[Key, str] = {}
    for key, job in planned.items():
        options = list(experiment.options(*key))
        has_begun = job.folder.exists()
        require(
            not has_begun or job.folder.name in found,
            f"{job.folder} was not begun by this experiment: remove it, or give another --runs",
        )
        fresh: dict[str, Any] = {"options": options, "commit": commit}
        then = found[job.folder.name] if has_begun else fresh
        changed = sorted(set(then["options"]) ^ set(options))
        require(
            then["options"] == options,
            f"{job.folder} was begun with other settings ({' '.join(changed) or 'their order'}): "
            f"remove it, or give another folder with --runs",
        )
        found[job.folder.name] = then
        commits[key] = then["commit"]
    make_folder(runs)
    write_atomic(file, json.dumps(found, indent=1).encode())
    return commits


def make_folder(folder: Path) -> None:
    """Create a folder, or say why it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None


def score(
    experiment: Experiment,
    budget: Budget,
    planned: dict[Key, Job],
    commits: dict[Key, str],
    console: Console,
) -> Results:
    """Read and play every run."""
    results: Results = {label: [] for label in experiment.contestants}
    with ProgressView(console, "playing", len(planned), "runs") as progress:
        for number, ((label, seed), job) in enumerate(planned.items(), 1):
            commit = commits[label, seed]
            outcome = measure(experiment, budget, label, seed, job.folder, commit)
            results[label].append(outcome)
            progress.show(number)
    return results


def write_tables(experiment: Experiment, results: Results, out: Path) -> None:
    """One row per run; the evaluator's curve; plays, returns and final scores of the arms."""
    outcomes = [outcome for group in results.values() for outcome in group]
    num_scores = max(len(outcome.arm_scores) for outcome in outcomes)
    write_csv(
        out / data_name(experiment),
        ["contestant", "agent", "seed", "score", "evaluator", "best_arm", "beta", "gamma",
         "frames", "seconds", "commit", *(f"score_arm_{arm}" for arm in range(num_scores))],
        ([o.label, o.agent, o.seed, o.score, o.evaluator, o.best_arm, *o.beta_gamma,
          o.frames, round(o.seconds), o.commit,
          *o.arm_scores, *[""] * (num_scores - len(o.arm_scores))] for o in outcomes),
    )  # fmt: skip
    write_csv(
        out / "curve.csv",
        ["contestant", "seed", "frames", "return", "best_arm"],
        (
            [o.label, o.seed, round(frames), value, best]
            for o in outcomes
            for frames, value, best in zip(o.bin_frames, o.curve, o.best_arms, strict=True)
        ),
    )
    write_csv(
        out / "arms.csv",
        ["contestant", "seed", "arm", "beta", "gamma", "frames", "plays", "return", "score"],
        (row for o in outcomes for row in _arm_rows(o)),
    )


def _arm_rows(o: Outcome) -> Iterable[list[Any]]:
    """Bins in which an arm was played; its score after training is on its last line."""
    for arm, (beta, gamma) in enumerate(o.arms):
        for index, frames in enumerate(o.bin_frames):
            if o.plays[index, arm]:
                found = (round(frames), int(o.plays[index, arm]), o.arm_returns[index, arm])
                yield [o.label, o.seed, arm, beta, gamma, *found, ""]
        if o.arm_scores:
            yield [o.label, o.seed, arm, beta, gamma, o.frames, "", "", o.arm_scores[arm]]


def write_csv(file: Path, columns: list[str], rows: Iterable[list[Any]]) -> None:
    """A table; numbers with six digits, unknown ones empty."""
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return value


def keep_weights(experiment: Experiment, budget: Budget, outcomes: list[Outcome], out: Path) -> str:
    """Keep the networks of a contestant's best seed, scored again as written; what they are."""
    best = max(outcomes, key=lambda outcome: outcome.score)
    folder = out / "weights"
    num_bytes = export_weights(best.folder, folder)
    returns = episode_returns(
        TrainedRun.load(folder), best.best_arm, experiment.epsilon, budget.num_episodes
    )
    score = float(returns.mean())
    write_weights_card(folder / "README.md", experiment, best, score)
    return f"[weights](weights), seed {best.seed}, {num_bytes / 1e6:.1f} MB, score {score:,.4g}"


def show(
    experiment: Experiment, results: Results, verdicts: list[Verdict], console: Console
) -> None:
    """Print what was measured and whether it is what the paper claims."""
    table = Table("contestant", "seed", "score", "evaluator", "best arm", title=experiment.name)
    for outcomes in results.values():
        for o in outcomes:
            beta, gamma = o.beta_gamma
            arm = f"{o.best_arm} (beta {beta:.3g}, gamma {gamma:.5g})"
            table.add_row(o.label, str(o.seed), f"{o.score:,.3f}", f"{o.evaluator:,.3f}", arm)
    console.print(table)
    for verdict in verdicts:
        text = f"{verdict.word}: {verdict.goal}: {verdict.value:,.4g}"
        console.print(text, highlight=False, markup=False, soft_wrap=True)
