"""Train an agent on CartPole, look at its metrics, save the policy, and play with it.

python examples/train_and_load.py [FRAMES]
"""

import sys

import agent57


def main(frames: int = 100_000, out: str = "runs/example-cartpole", scale: str = "laptop") -> float:
    """Train, then play one episode with the saved policy; return the episode's return."""
    run = agent57.train(env="CartPole-v1", scale=scale, frames=frames, seed=1, out=out)
    metrics = run.metrics()
    print(f"{metrics['frames'][-1]:,} frames, {metrics['updates'][-1]:,} updates")
    print(f"mean return over 20 episodes: {run.evaluate(episodes=20)['return_mean']:.1f}")

    run.policy().save(f"{out}/cartpole.agent57")
    policy = agent57.load(f"{out}/cartpole.agent57")  # acting needs no environment
    env = policy.make_env()  # the environment that it was trained on
    observation, _ = env.reset(seed=0)
    state, reward, first, total = policy.initial_state(), 0.0, True, 0.0
    while True:
        action, state = policy.act(observation, state, reward, first)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, first = total + reward, False
        if terminated or truncated:
            print(f"one episode with the saved policy: {total:.0f}")
            return total


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
