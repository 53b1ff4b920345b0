"""The demo of drlbox: a network of your own, and asynchronous env actors on Ray.

Prints the progress, how many episodes ended, and the mean reward of the last ones.
"""

from typing import Any

import gymnasium as gym

import xagents_ray


def make_feature(env: Any) -> Any:
    """Return the layers before the policy and the value, which they share."""
    import keras

    feature = state = keras.Input(env.observation_space.shape)
    for units in (200, 100):
        feature = keras.layers.Dense(units, activation="relu")(feature)
    return keras.Model(state, feature)


if __name__ == "__main__":
    result = xagents_ray.train(
        "a3c",
        env=lambda: gym.make("CartPole-v1"),
        feature_maker=make_feature,
        n_steps=32,
        n_envs=2,
        n_actors=2,
        max_steps=1_000,
    )
    print(f"{result.games} episodes, mean reward {result.mean_reward}")
