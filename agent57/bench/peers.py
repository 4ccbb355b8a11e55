"""Compares training speed with other agents: steps and learned timesteps per core second.

    pip install stable-baselines3 opencv-python-headless      # for this comparison alone
    python -m agent57.bench.peers --turns 3
    python -m agent57.bench.peers --rival my_checkout.py  # an agent you have checked out yourself

All agents train on Pong from pixels with one thread of torch and take turns in one process. Core
time is compared, because other programs on the machine hardly change it. Learned timesteps are
counted too, because steps are cheap for an agent that hardly learns.

A rival's file adds its checkout to `sys.path` and defines `make()`, which returns a function. This
function takes a number of agent steps, and plays and learns for at least that many steps. It
returns the steps played and the timesteps learned from.
"""

import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from agent57.bench.script import need, options_of, tell
from agent57.defaults import default_config
from agent57.replay.buffer import SamplesPerInsert
from agent57.runtime.parts import build

Turn = Callable[[int], tuple[int, int]]


def agent57(scale: str, precision: Literal["float32", "bfloat16", "auto"]) -> Turn:
    """Return the inline runtime without evaluator and records, which rivals lack too."""
    config = default_config("pong", "agent57", scale)
    config = replace(
        config,
        replay=replace(config.replay, min_windows=config.learner.batch_size, threads=1),
        learner=replace(config.learner, precision=precision),
    )
    parts = build(config, torch.device("cpu"))
    ratio, batch_size = SamplesPerInsert(config.replay), config.learner.batch_size

    def turn(num_steps: int) -> tuple[int, int]:
        steps, updates = parts.actor.num_transitions, parts.learner.num_updates
        while parts.actor.num_transitions - steps < num_steps:
            for block in parts.actor.step()[0]:
                parts.replay.add(block)
            inserted = parts.replay.num_windows_inserted
            owed = ratio.updates_owed(inserted, parts.learner.num_updates, batch_size)
            for batch in parts.replay.batches(owed, batch_size):
                update = parts.learner.update(batch)
                parts.replay.reprioritise(batch.key, update.priorities)
        updates = parts.learner.num_updates - updates
        learned = updates * batch_size * config.sequence.trace_length
        return parts.actor.num_transitions - steps, learned

    return turn


def sb3_dqn() -> Turn:
    """Return DQN of Stable-Baselines3 with its zoo's Atari settings, except the warm-up."""
    need("stable_baselines3", "pip install stable-baselines3 opencv-python-headless")
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    env = VecFrameStack(make_atari_env("ale_py:PongNoFrameskip-v4", n_envs=1, seed=0), n_stack=4)
    model = DQN(
        "CnnPolicy", env, buffer_size=10_000, learning_starts=100, batch_size=32, train_freq=4,
        gradient_steps=1, learning_rate=1e-4, device="cpu",
    )  # fmt: skip

    def turn(num_steps: int) -> tuple[int, int]:
        steps, updates = model.num_timesteps, model._n_updates
        model.learn(num_steps, reset_num_timesteps=False)
        return model.num_timesteps - steps, (model._n_updates - updates) * model.batch_size

    return turn


def from_file(path: Path) -> Turn:
    """Return what the `make` of a rival's file returns."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    turn: Turn = module.make()
    return turn


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=800, help="agent steps of a turn, at least")
    parser.add_argument("--scale", default="laptop")
    parser.add_argument(
        "--precision", default="float32", choices=("float32", "bfloat16", "auto"), help="of agent57"
    )
    parser.add_argument("--no-sb3", action="store_true")
    parser.add_argument("--rival", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    torch.set_num_threads(1)
    agents: dict[str, Turn] = {"agent57": agent57(args.scale, args.precision)}
    if not args.no_sb3:
        agents["SB3 DQN"] = sb3_dqn()
    agents |= {path.stem: from_file(path) for path in args.rival}
    for turn in agents.values():
        turn(args.steps)  # the first turn warms up and begins to learn
    acted: dict[str, list[float]] = {name: [] for name in agents}
    learned: dict[str, list[float]] = {name: [] for name in agents}
    for _ in range(args.turns):
        for name, turn in agents.items():
            begun = time.process_time()
            steps, timesteps = turn(args.steps)
            core = time.process_time() - begun
            acted[name].append(steps / core)
            learned[name].append(timesteps / core)
    for name in agents:
        rates = [statistics.median(found[name]) for found in (acted, learned)]
        ratios = (
            statistics.median(a / b for a, b in zip(found["agent57"], found[name], strict=True))
            for found in (acted, learned)
        )
        times = " and ".join(f"{ratio:.2f}" for ratio in ratios)
        tell(
            f"{name:12s} {rates[0]:8.1f} steps, {rates[1]:8.1f} learned timesteps per core second; "
            f"agent57 is {times} times as fast"
        )


if __name__ == "__main__":
    main()
