"""Measures how old an episode's embedding is at its start, by lanes and versions held.

    python trials/embedding_age.py

Episodes have geometric lengths, and the learner has a new embedding every 100 steps. Ages are in
mean episode lengths. Only `Curiosity` decides which embedding an episode gets; no game is played.
"""

from functools import partial

import numpy as np
import torch

from agent57.config import CuriosityConfig, NetworkConfig
from agent57.curiosity.reward import Curiosity, versions_held
from agent57.nets.networks import Embedding, Rnd
from agent57.nets.torso import Trunk

MEAN_LENGTH, PULL_PERIOD = 1000, 100  # steps
SETTINGS = [(lanes, versions) for lanes in (16, 64, 256) for versions in (4, 0)]


def mean_age(num_lanes: int, num_versions: int, num_episodes: int) -> float:
    """Return the mean age of embeddings at the start of episodes, after a warm-up."""
    sizes = NetworkConfig(feature_size=2, embedding_size=2, inverse_head_size=2, rnd_size=2)
    make_trunk = partial(Trunk, sizes, "vector", (1,))
    curiosity = Curiosity(
        Embedding(sizes, make_trunk(), 2),
        Rnd(sizes, make_trunk),
        num_lanes,
        num_versions,
        CuriosityConfig(memory_size=10),
    )
    rng, states = np.random.default_rng(0), torch.zeros(num_lanes, 1)
    ends, ages = np.zeros(num_lanes, np.int64), []
    while len(ages) < num_episodes:
        now = int(ends.min())
        begins = ends == now
        curiosity.refresh(now // PULL_PERIOD * PULL_PERIOD)
        curiosity.begin(begins, states)
        version = curiosity.versions[begins]
        ages += (now - version).tolist()
        ends[begins] += rng.geometric(1 / MEAN_LENGTH, begins.sum())
    return float(np.mean(ages[num_episodes // 4 :])) / MEAN_LENGTH


def main() -> None:
    """Print one line for each number of lanes and versions."""
    torch.set_num_threads(1)
    for num_lanes, versions in SETTINGS:
        held = versions_held(versions, num_lanes)
        age = mean_age(num_lanes, held, 40 * num_lanes)
        print(f"{num_lanes:3d} lanes, {held:2d} versions: {age:.2f} mean episode lengths")


if __name__ == "__main__":
    main()
