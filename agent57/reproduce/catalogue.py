"""Every experiment, by name."""

from agent57.reproduce import random_coin
from agent57.reproduce.experiment import Experiment
from agent57.reproduce.tasks import DISCOUNT, EXPLORATION_BANDIT, KEY_CORRIDOR, MEMORY, PONG

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
