"""The demo of drlbox: env actors that run free, and layers of 200 and 100 units."""

from pathlib import Path

import gymnasium as gym

import xagents_ray

if __name__ == "__main__":
    result = xagents_ray.train(
        "a2c",
        env=lambda: gym.make("CartPole-v1"),
        model=Path(__file__).with_name("cartpole_a3c.cfg"),
        asynchronous=True,
        policy_lag=4,
        n_steps=32,
        n_envs=2,
        n_actors=2,
        max_steps=1_000,
    )
    print(f"{result.games} episodes, mean reward {result.mean_reward}")
