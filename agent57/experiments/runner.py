"""Performs an experiment: trains all contestants, scores them, writes data, figures and card.

RUNS/<contestant>-seed<k>    the runs; an interrupted run is resumed, a finished run is kept
RUNS/plan.json               the commit that each run was begun with
OUT/                         README.md, CSV, figures, weights
"""

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent57.config import ConfigError, EnvConfig
from agent57.envs.make import check_env
from agent57.experiments.card import data_name, git_commit, write_card, write_weights_card
from agent57.experiments.experiment import Budget, Experiment, Outcome, Results, Verdict
from agent57.experiments.jobs import SILENT, Job, JobQueue, JobView, share_cores, with_threads
from agent57.experiments.measure import episode_returns, film_best, measure
from agent57.experiments.weights import export_weights
from agent57.storage.files import write_atomic
from agent57.trained.trained_run import TrainedRun
from agent57.video.film import check_video

PLAN_FILE = "plan.json"

Key = tuple[str, int]  # label and seed


def reproduce(
    experiment: Experiment,
    budget_name: str,
    runs: Path,
    out: Path,
    num_parallel: int,
    view: JobView = SILENT,
) -> tuple[Results, list[Verdict]]:
    """Train, score and compare all contestants; write everything to `out`."""
    budget = experiment.budgets[budget_name]
    for task in experiment.tasks:
        check_env(EnvConfig(name=task))
    if experiment.films:
        check_video(out / "film.mp4")
    num_runs = len(experiment.contestants) * budget.num_seeds
    num_parallel, num_threads = share_cores(num_parallel, num_runs)
    planned = jobs(experiment, budget, runs, num_threads)
    commits = check_plan(planned, runs)
    make_folder(out)
    JobQueue(list(planned.values()), num_parallel, view.show).run()
    results: Results = {label: [] for label in experiment.contestants}
    for number, ((label, seed), job) in enumerate(planned.items(), 1):
        view.tell(f"playing the final policies: run {number} of {len(planned)}")
        outcome = measure(experiment, budget, label, seed, job.folder, commits[label, seed])
        results[label].append(outcome)
    verdicts = [criterion.judge(results) for criterion in experiment.criteria]
    write_tables(experiment, results, out)
    figures = experiment.draw(experiment, budget, results, out)
    weights = keep_weights(experiment, budget, results[experiment.subject], out)
    if experiment.films:
        film(experiment, budget, results, out, view)
    card = out / "README.md"
    write_card(card, experiment, budget_name, results, verdicts, figures, weights)
    return results, verdicts


def jobs(experiment: Experiment, budget: Budget, runs: Path, num_threads: int) -> dict[Key, Job]:
    """Return all runs; one seed of all contestants comes before the next seed."""
    return {
        (label, seed): Job(
            name=f"{label}, seed {seed}",
            folder=runs / folder_name(label, seed),
            config=with_threads(
                experiment.config(label, seed, budget.frames_of(experiment.task(label))),
                num_threads,
            ),
        )
        for seed in range(budget.num_seeds)
        for label in experiment.contestants
    }


def folder_name(label: str, seed: int) -> str:
    """Return the name of a run's folder."""
    return re.sub(r"[^a-z0-9.]+", "-", f"{label} seed{seed}".lower())


def check_plan(planned: dict[Key, Job], runs: Path) -> dict[Key, str]:
    """Refuse to mix runs of different settings; return the commit each run was begun with.

    More contestants, seeds or frames than before are allowed.
    """
    file = runs / PLAN_FILE
    try:
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    except ValueError:
        raise ConfigError(f"{file} is damaged") from None
    commit = git_commit()
    for job in planned.values():
        job.check_begun()
        if not job.folder.exists():
            found[job.folder.name] = {"commit": commit}
    make_folder(runs)
    write_atomic(file, json.dumps(found, indent=1).encode())
    unknown = {"commit": "unknown"}
    return {key: found.get(job.folder.name, unknown)["commit"] for key, job in planned.items()}


def make_folder(folder: Path) -> None:
    """Create a folder, or say why it cannot be created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from None


def write_tables(experiment: Experiment, results: Results, out: Path) -> None:
    """Write one row per run, the evaluator's curves, and the plays and returns of the arms."""
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
    """Yield a row per bin in which an arm was played, then a row with its final score."""
    for arm, (beta, gamma) in enumerate(o.arms):
        for index, frames in enumerate(o.bin_frames):
            if o.plays[index, arm]:
                found = (round(frames), int(o.plays[index, arm]), o.arm_returns[index, arm])
                yield [o.label, o.seed, arm, beta, gamma, *found, ""]
        if o.arm_scores:
            yield [o.label, o.seed, arm, beta, gamma, o.frames, "", "", o.arm_scores[arm]]


def write_csv(file: Path, columns: list[str], rows: Iterable[list[Any]]) -> None:
    """Write a table; numbers have six digits, unknown numbers are empty cells."""
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return value


def film(
    experiment: Experiment, budget: Budget, results: Results, out: Path, view: JobView
) -> None:
    """Film the best final episode of each contestant's best seed."""
    folder = out / "films"
    make_folder(folder)
    for label, outcomes in results.items():
        view.tell(f"filming {label}")
        best = max(outcomes, key=lambda outcome: outcome.score)
        file = folder / f"{folder_name(label, best.seed)}.mp4"
        film_best(TrainedRun.load(best.folder), experiment.epsilon, budget.num_episodes, file)


def keep_weights(experiment: Experiment, budget: Budget, outcomes: list[Outcome], out: Path) -> str:
    """Keep the networks of the best seed, score them again, and describe them."""
    best = max(outcomes, key=lambda outcome: outcome.score)
    folder = out / "weights"
    num_bytes = export_weights(best.folder, folder)
    returns = episode_returns(
        TrainedRun.load(folder), best.best_arm, experiment.epsilon, budget.num_episodes
    )
    score = float(returns.mean())
    write_weights_card(folder / "README.md", experiment, best, score)
    return f"[weights](weights), seed {best.seed}, {num_bytes / 1e6:.1f} MB, score {score:,.4g}"
