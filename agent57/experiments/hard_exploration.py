"""Hard exploration on real Atari: games where an agent without curiosity earns next to nothing.

Agent57 and its successor MEME are compared with R2D2 at the same frames. All have the default
settings of `--scale desktop`, which is made for long runs. Runs take hours and continue after an
interruption. The same command with more frames or seeds continues existing runs.
"""

from agent57.experiments.criteria import at_least, at_most, evaluator_score
from agent57.experiments.drawing import draw_games
from agent57.experiments.experiment import Contestant, Experiment, budgets

GAMES = ("montezuma_revenge", "venture", "private_eye", "freeway")
AGENTS = ("agent57", "meme", "r2d2")


def label(game: str, agent: str) -> str:
    """Return the name of a contestant."""
    return f"{agent}, {game}"


HARD_EXPLORATION = Experiment(
    name="hard-exploration",
    claim="curiosity earns rewards where an agent without it earns none",
    env=GAMES[0],
    contestants={
        label(game, agent): Contestant(agent=agent, env=game) for game in GAMES for agent in AGENTS
    },
    budgets=budgets(frames=(2_000_000, 40_000_000), num_seeds=1, num_episodes=(5, 20)),
    criteria=(
        *(
            at_least(
                f"{label(game, 'agent57')}: mean of the last 50 evaluation episodes",
                evaluator_score(label(game, "agent57")),
                100.0,
            )
            for game in ("montezuma_revenge", "venture", "private_eye")
        ),
        at_most(
            f"{label('montezuma_revenge', 'r2d2')}: mean of the last 50 evaluation episodes",
            evaluator_score(label("montezuma_revenge", "r2d2")),
            0.0,
        ),
    ),
    draw=draw_games,
    lines={},
    scale="desktop",
    recent_episodes=50,
    films=True,
)
