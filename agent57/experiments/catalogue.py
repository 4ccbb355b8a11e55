"""Every experiment, by name."""

from agent57.experiments import separate_networks as random_coin
from agent57.experiments.claims import DISCOUNT, EXPLORATION_BANDIT, KEY_CORRIDOR, MEMORY, PONG
from agent57.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        PONG,
        KEY_CORRIDOR,
        DISCOUNT,
        MEMORY,
        random_coin.experiment(),
        EXPLORATION_BANDIT,
    )
}
