"""Every experiment, by name."""

from agent57.experiments import separate_networks as random_coin
from agent57.experiments.claims import DISCOUNT, EXPLORATION_BANDIT, KEY_CORRIDOR, MEMORY, PONG
from agent57.experiments.experiment import Experiment
from agent57.experiments.hard_exploration import HARD_EXPLORATION
from agent57.experiments.meme_ablation import MEME

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        PONG,
        KEY_CORRIDOR,
        DISCOUNT,
        MEMORY,
        random_coin.experiment(),
        EXPLORATION_BANDIT,
        HARD_EXPLORATION,
        MEME,
    )
}
