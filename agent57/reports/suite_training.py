"""The paper's figures over training, from the runs of a suite (figures 1 and 6).

The figures show games above human, the capped mean score, and the best arm of each game, over
frames. A game without a full window of evaluation episodes counts as random play. A run that has
ended keeps its last score.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent57.reports.charts import Chart, Group, Line, as_curve, line_chart, on_grid, score_curve
from agent57.scores.aggregate import WINDOW_EPISODES
from agent57.scores.published import baseline, suite_games

Floats = NDArray[np.float64]

NUM_POINTS = 200  # points of each curve
MIN_GAMES = 2  # least number of games of a suite
FIGURE, ARMS_FIGURE = "training.svg", "best_arms.svg"
BEST_ARM_NOTE = "the evaluator's choice; first seed of each game"
RULE = "a game without 50 evaluation episodes counts as random play"


@dataclass(frozen=True, kw_only=True)
class AgentTraining:
    """The training of one agent on the games of a suite."""

    agent: str
    games: list[str]
    frames: Floats  # [T]
    hns: Floats  # [G, T] human-normalised mean over seeds; 0 before the first full window
    best_arms: Floats  # [G, T] the evaluator's best arm, first seed; nan where unknown

    @property
    def games_above_human(self) -> Floats:
        """Number of games above human, [T]."""
        return (self.hns > 1).sum(0).astype(np.float64)

    @property
    def capped_mean(self) -> Floats:
        """The mean over games of scores clipped to [0, 1], in percent, [T]."""
        return 100 * np.clip(self.hns, 0, 1).mean(0)


def suite_training(groups: Sequence[Group]) -> list[AgentTraining]:
    """Return each agent's games over training; empty for fewer than MIN_GAMES games."""
    known = [group for group in groups if group.runs[0].env in suite_games("atari57")]
    if len({group.runs[0].env for group in known}) < MIN_GAMES:
        return []
    last = max(float(run.latest.get("frames", 0)) for group in known for run in group.runs)
    frames = np.linspace(0, max(last, 1.0), NUM_POINTS)
    agents = list(dict.fromkeys(group.runs[0].config.run.agent for group in known))
    found = []
    for agent in agents:
        ours = [group for group in known if group.runs[0].config.run.agent == agent]
        found.append(
            AgentTraining(
                agent=agent,
                games=[group.runs[0].env for group in ours],
                frames=frames,
                hns=np.stack([_normalised(group, frames) for group in ours]),
                best_arms=np.stack([_best_arm(group, frames) for group in ours]),
            )
        )
    return found


def _normalised(group: Group, frames: Floats) -> Floats:
    """Return the human-normalised score [T], mean over the seeds with a full window so far."""
    scale = baseline(group.runs[0].env, "agent57")
    total, count = np.zeros(len(frames)), np.zeros(len(frames))
    for run in group.runs:
        ends, means = score_curve(run, WINDOW_EPISODES)
        if sum(row["phase"] == "evaluate" for row in run.episodes) < WINDOW_EPISODES:
            continue
        has_score = frames >= ends[0]
        total += np.where(has_score, np.interp(frames, ends, means), 0.0)
        count += has_score
    mean = np.divide(total, count, out=np.full(len(frames), scale.random), where=count > 0)
    return (mean - scale.random) / (scale.human - scale.random)


def _best_arm(group: Group, frames: Floats) -> Floats:
    """Return the evaluator's best arm [T] in the first seed; nan where unknown."""
    return on_grid(as_curve(group.runs[0].best_arms), frames, is_step=True)


def training_section(groups: Sequence[Group]) -> dict[str, Any]:
    """Return the figures as charts of the page."""
    agents = suite_training(groups)
    if not agents:
        return {"title": "Over training"}

    def lines(name: str) -> list[Line]:
        return [
            Line(
                name=f"{agent.agent}, {_games(len(agent.games))}",
                curves=[(agent.frames, getattr(agent, name))],
                colour=colour,
                is_step=name == "games_above_human",
            )
            for colour, agent in enumerate(agents)
        ]

    most = max(len(agent.games) for agent in agents)
    charts = [
        line_chart(
            "Games above human",
            "emulator frames",
            "games",
            lines("games_above_human"),
            f"the paper's figure 1; mean over seeds; {RULE}",
            y_range=[0, most],
            is_whole=True,
            is_large=True,
        ),
        line_chart(
            "Capped mean",
            "emulator frames",
            "capped human-normalised score, %",
            lines("capped_mean"),
            f"mean over games; {RULE}",
            y_range=[0, 100],
            is_large=True,
        ),
    ]
    charts += [_best_arms(agent) for agent in agents]
    text = "The paper's figures over training, from the runs of this suite."
    return {"title": "Over training", "text": text, "charts": charts}


def _games(count: int) -> str:
    return "1 game" if count == 1 else f"{count} games"


def _best_arms(training: AgentTraining) -> Chart:
    """Return a chart of the evaluator's best arm of each game over training."""
    num_games, num_points = training.best_arms.shape
    return {
        "kind": "map",
        "title": f"Best arm per game, {training.agent}",
        "x": "emulator frames",
        "y": "game",
        "unit": "arm",
        "frames": training.frames.round().tolist(),
        "rows": [[None if np.isnan(x) else int(x) for x in row] for row in training.best_arms],
        "best": [None] * num_points,
        "labels": training.games,
        "notes": ["the evaluator's best arm"] * num_games,
        "note": BEST_ARM_NOTE,
        "is_large": True,
    }


def draw_training(groups: Sequence[Group], folder: Path) -> list[Path]:
    """Write the figures as SVG beside the page; return the files, or none without a suite."""
    agents = suite_training(groups)
    if not agents:
        return []
    from agent57.reports.figures import game_maps, training_curves

    panels = {
        "games above human": {a.agent: (a.frames, a.games_above_human) for a in agents},
        "capped mean score, %": {a.agent: (a.frames, a.capped_mean) for a in agents},
    }
    most = max(len(agent.games) for agent in agents)
    training_curves(
        panels,
        lines={"games above human": float(most)},
        x_label="emulator frames",
        note=f"{_games(most)}; mean over seeds; {RULE}",
        files=[folder / FIGURE],
    )
    game_maps(
        {f"Best arm per game, {a.agent}": dict(zip(a.games, a.best_arms, strict=True))
         for a in agents},
        max_x=float(agents[0].frames[-1]),
        x_label="emulator frames",
        unit="arm",
        note=f"{BEST_ARM_NOTE}; grey: not known yet",
        files=[folder / ARMS_FIGURE],
    )  # fmt: skip
    return [folder / FIGURE, folder / ARMS_FIGURE]
