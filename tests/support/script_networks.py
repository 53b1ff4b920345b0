"""Networks as a script has them, in `__main__`."""

from typing import Any

import keras

layers = keras.layers


@keras.saving.register_keras_serializable("script")
class Doubled(layers.Layer):  # type: ignore[misc]
    def call(self, x):  # type: ignore[no-untyped-def]
        return 2 * x


def _model(env: Any, *between: Any) -> Any:
    x = given = keras.Input(env.observation_space.shape)
    for each in (layers.Dense(8, "tanh"), *between):
        x = each(x)
    return keras.Model(given, [layers.Dense(2)(x), layers.Dense(1)(x)])


def known(env: Any) -> Any:
    return _model(env, layers.LayerNormalization())


def unknown(env: Any) -> Any:
    return _model(env, Doubled())


def features(env: Any) -> Any:
    return keras.Sequential([keras.Input(env.observation_space.shape), layers.Dense(8)])


def failing(env: Any) -> Any:
    return keras.Input(env.no_such_attribute)
