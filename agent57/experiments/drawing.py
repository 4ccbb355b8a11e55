"""Draws the figures of experiments. matplotlib is loaded when the first figure is drawn."""

from pathlib import Path

import numpy as np

from agent57.experiments.experiment import Budget, Experiment, Results


def draw_curves(experiment: Experiment, budget: Budget, results: Results, out: Path) -> list[str]:
    """Draw `curve`: the evaluator's returns of all contestants over training."""
    from agent57.reports.figures import learning_curves

    learning_curves(
        {
            label: [(outcome.bin_frames, outcome.curve) for outcome in outcomes]
            for label, outcomes in results.items()
        },
        lines=experiment.lines,
        x_label="frames",
        y_label="return of evaluation episodes",
        note=note(experiment, budget),
        files=[out / "curve.png", out / "curve.svg"],
    )
    return ["curve"]


def draw_curves_and_arms(
    experiment: Experiment, budget: Budget, results: Results, out: Path
) -> list[str]:
    """Draw `curve`, and `arms`: plays and mean returns of each arm over training, and best arms."""
    from agent57.reports.figures import arm_heat_maps

    names = draw_curves(experiment, budget, results, out)
    with_arms = {label: o for label, o in results.items() if len(o[0].arms) > 1}
    if not with_arms:
        return names
    arms = next(iter(with_arms.values()))[0].arms
    arm_heat_maps(
        {
            label: {
                "share of plays": _share(np.sum([outcome.plays for outcome in outcomes], axis=0)),
                "mean return": _mean_returns([(o.plays, o.arm_returns) for o in outcomes]),
            }
            for label, outcomes in with_arms.items()
        },
        best_arms={label: outcomes[0].best_arms for label, outcomes in with_arms.items()},
        arms=[f"{j}: β {beta:.2g}, γ {gamma:.5g}" for j, (beta, gamma) in enumerate(arms)],
        max_frames=float(next(iter(with_arms.values()))[0].bin_frames[-1]),
        x_label="frames",
        note=f"{note(experiment, budget)}; best arm: the evaluator's, seed 0",
        files=[out / "arms.png", out / "arms.svg"],
    )
    return [*names, "arms"]


def draw_games(experiment: Experiment, budget: Budget, results: Results, out: Path) -> list[str]:
    """Draw `games`: return, share of rewarded episodes, novelty and best arm, a row per task."""
    from agent57.reports.figures import Curves, curve_grid

    columns = {
        "return of evaluation episodes": lambda o: o.curve,
        "share with a positive return": lambda o: o.rewarded,
        "novelty of the actors' steps": lambda o: o.novelty,
        "best arm of the evaluator": lambda o: o.best_arms,
    }
    panels: dict[str, dict[str, Curves]] = {}
    for task in experiment.tasks:
        labels = [label for label in results if experiment.task(label) == task]
        panels[task] = {
            title: {
                results[label][0].agent: [(o.bin_frames, column(o)) for o in results[label]]
                for label in labels
            }
            for title, column in columns.items()
        }
    curve_grid(panels, x_label="frames", note=note(experiment, budget),
               files=[out / "games.png", out / "games.svg"])  # fmt: skip
    return ["games"]


def note(experiment: Experiment, budget: Budget) -> str:
    """Return a line that names a figure's tasks, frames and seeds."""
    seeds = "1 seed" if budget.num_seeds == 1 else f"{budget.num_seeds} seeds"
    return f"{', '.join(experiment.tasks)}, {budget.frames:,} frames, {seeds}"


def _share(plays: np.ndarray) -> np.ndarray:
    """Return each arm's share of the plays of a bin; nan for bins without plays."""
    with np.errstate(invalid="ignore"):
        return plays / plays.sum(axis=1, keepdims=True)


def _mean_returns(seeds: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return each arm's mean return over all seeds' episodes; nan where it was not played."""
    total = np.sum([plays * np.nan_to_num(returns) for plays, returns in seeds], axis=0)
    with np.errstate(invalid="ignore"):
        return total / np.sum([plays for plays, _ in seeds], axis=0)
