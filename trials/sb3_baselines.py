"""Trains PPO and DQN of Stable-Baselines3 with default settings on the tasks of the desk suite.

    pip install -e '.[baselines]'       # for this script alone; the package does not need it
    python trials/sb3_baselines.py --out runs/desk/baselines.json
    agent57 suite desk --out runs/desk  # puts them into its table and figure

Each task gets as many steps as agent57 gets in the desk suite. Atari is left out, because results
with its usual budget of 10 million steps are published. MiniGrid's image is flattened for the
default MLP. The final policy plays deterministically, the default of `evaluate_policy`. Results are
written after each run, and a run that is already in the file is not repeated.
"""

import argparse
import json
import time
from pathlib import Path

import gymnasium
import torch

from agent57.bench.script import need
from agent57.experiments.desk import TASKS, DeskTask, chosen_tasks
from agent57.storage.files import write_atomic

SYSTEMS = {"SB3 PPO": "PPO", "SB3 DQN": "DQN"}  # classes of stable_baselines3


def make(env: str) -> gymnasium.Env:
    from stable_baselines3.common.monitor import Monitor

    made = gymnasium.make(env)
    if env.startswith("MiniGrid"):
        from minigrid.wrappers import ImgObsWrapper

        made = gymnasium.wrappers.FlattenObservation(ImgObsWrapper(made))
    return Monitor(made)


def train(system: str, task: DeskTask, steps: int, seed: int) -> tuple[float, float]:
    """Return the mean return of the final policy, and the seconds of training."""
    import stable_baselines3
    from stable_baselines3.common.evaluation import evaluate_policy

    env, begun = make(task.env), time.monotonic()
    model = getattr(stable_baselines3, SYSTEMS[system])("MlpPolicy", env, seed=seed, device="cpu")
    model.learn(steps)
    seconds = time.monotonic() - begun
    mean, _ = evaluate_policy(model, make(task.env), n_eval_episodes=task.num_episodes)
    return float(mean), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/desk/baselines.json"))
    parser.add_argument("--only", default="", help="tasks: NAME,NAME")
    parser.add_argument("--seeds", type=int, help="by default those of the suite")
    parser.add_argument("--steps", type=int, help="by default those of the suite")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    need("stable_baselines3", "pip install -e '.[baselines]'")
    torch.set_num_threads(args.threads)
    if any(name.startswith("MiniGrid") for name in (task.env for task in TASKS)):
        import minigrid  # noqa: F401, registers its tasks
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows = json.loads(args.out.read_text()) if args.out.exists() else []
    for task in chosen_tasks(args.only):
        if task.env in ("pong", "breakout"):
            continue
        steps = args.steps or task.frames
        for system in SYSTEMS:
            key = {"env": task.env, "system": system, "steps": steps}
            row = next((row for row in rows if key.items() <= row.items()), None)
            if row is None:
                row = {**key, "seconds": 0.0, "seed_scores": []}
                rows.append(row)
            for seed in range(len(row["seed_scores"]), args.seeds or task.num_seeds):
                mean, seconds = train(system, task, steps, seed)
                row["seconds"] = (row["seconds"] * seed + seconds) / (seed + 1)
                row["seed_scores"].append(mean)
                write_atomic(args.out, json.dumps(rows, indent=1).encode())
                print(f"{task.env} {system} seed {seed}: {mean:.4g} in {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
