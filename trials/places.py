"""Maps where each arm of a run goes in the first room of Montezuma's Revenge.

    python trials/places.py runs/montezuma --episodes 3 --out places.png

The run may still be training: its newest checkpoint plays, so maps of several moments show how the
visited part of the room grows. Rooms and positions are read from the console's memory for this map
only. No agent sees them.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from agent57.envs.atari import AtariEnv
from agent57.envs.atari_memory import places_visited
from agent57.experiments.measure import play
from agent57.trained.trained_run import TrainedRun

FIRST_ROOM = 1
TOP = 320  # row of the screen = TOP - y


def first_screen(run: TrainedRun) -> np.ndarray:
    """Return the first room in colour."""
    env = AtariEnv(run.config.env.name, 1, run.config.env, in_colour=True)
    env.reset(np.ones(1, bool), np.zeros(1, np.int64))
    screen = env.render(0).copy()
    env.close()
    return screen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--episodes", type=int, default=3, help="of each arm")
    parser.add_argument("--epsilon", type=float, default=0.01)
    parser.add_argument("--max-frames", type=int, default=18_000, help="of an episode")
    parser.add_argument("--out", type=Path, default=Path("places.png"))
    options = parser.parse_args()

    run = TrainedRun.load(options.run)
    env = replace(run.config.env, max_episode_frames=options.max_frames)
    run = replace(run, config=replace(run.config, env=env))
    screen = first_screen(run)
    arms = range(run.config.family.arms)
    figure, axes = plt.subplots(2, (len(arms) + 1) // 2, figsize=(13, 8), squeeze=False)
    for arm, axis in zip(arms, axes.flat, strict=False):
        final = play(run, arm, options.epsilon, options.episodes)
        episodes = places_visited(final.records, env)
        assert episodes is not None, f"the places of {env.name} are not known"
        places = np.concatenate(episodes).astype(int)
        rooms = sorted({int(room) for room in places[:, 0]})
        x, y = places[places[:, 0] == FIRST_ROOM, 1:].T
        cells, _, _ = np.histogram2d(TOP - y, x, bins=(np.arange(40, 200, 3), np.arange(0, 160, 3)))
        beta, gamma = run.beta_gamma(arm)
        print(
            f"arm {arm}  beta {beta:g}  gamma {gamma:.4g}  return {final.returns.mean():g}  "
            f"steps {len(places) / options.episodes:.0f}  cells {np.count_nonzero(cells)}  "
            f"rooms {rooms}"
        )
        axis.imshow(screen, alpha=0.45)
        shown = np.ma.masked_equal(cells, 0)
        axis.imshow(np.log1p(shown), extent=(0, 159, 199, 40), cmap="inferno", alpha=0.8)
        axis.set_title(
            f"arm {arm}, beta {beta:g}: {np.count_nonzero(cells)} cells, rooms {len(rooms)}, "
            f"return {final.returns.mean():g}",
            fontsize=8,
        )
        axis.set_axis_off()
    figure.suptitle(f"{run.config.run.agent}, {run.counters['frames']:,} frames", fontsize=10)
    figure.tight_layout()
    figure.savefig(options.out, dpi=110)
    print(options.out)


if __name__ == "__main__":
    main()
