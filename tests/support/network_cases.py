"""Observations for networks, and Keras models with given weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout


def observations(spec: EnvSpec, rows: int = 5) -> Any:
    rng, shape = np.random.default_rng(1), (rows, *spec.input_shape)
    if spec.observation_dtype == "uint8":
        return rng.integers(0, 256, shape, np.uint8)
    return rng.normal(size=shape).astype(np.float32)


def model_of(layout: Layout, arrays: Mapping[str, Any]) -> Any:
    """Return a layout's Keras model with these weights, of which each one fits."""
    model = networks.build_model(layout, 3, "net", takes_noise=layout.noise_units > 0)
    variables = networks.named_weights(model)
    assert {k: tuple(v.shape) for k, v in variables.items()} == layout.shapes
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return model
