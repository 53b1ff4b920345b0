"""drlbox's Breakout: ACER with a convolutional network of your own.

Prints the progress and the mean reward; `acer-breakout.npz` has the best weights.
"""

from typing import Any

import xagents_ray


def make_feature(obs_space: Any) -> Any:
    """Return the input and the features, which the policy and the values share."""
    import keras

    feature = state = keras.Input(obs_space.shape)
    for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
        feature = keras.layers.Conv2D(filters, size, stride, activation="relu")(feature)
    feature = keras.layers.Flatten()(feature)
    return state, keras.layers.Dense(512, activation="relu")(feature)


if __name__ == "__main__":
    result = xagents_ray.train(
        "acer",
        env="BreakoutNoFrameskip-v4",
        preprocess=True,
        feature_maker=make_feature,
        n_envs=16,
        n_actors=2,
        n_steps=20,
        buffer_max_size=2_000,
        kl_weight=0.1,
        ema_alpha=0.95,
        checkpoints=["acer-breakout.npz"],
        max_steps=10_000_000,
    )
    print(f"{result.games} episodes, mean reward {result.mean_reward}")
