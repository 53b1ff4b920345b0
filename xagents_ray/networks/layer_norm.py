"""Adds layer normalization to a network."""

from dataclasses import replace

from xagents_ray.networks.keras_layers import Activation, LayerNorm
from xagents_ray.networks.layers import Dense, Layer
from xagents_ray.networks.layout import Layout

_EPSILON = 1e-5
"""Added to variances; PyTorch's default."""


def with_layer_norm(layout: Layout) -> Layout:
    """Return a network that normalizes hidden dense layers before their activations.

    `dense-0` is followed by `dense-0-norm` and `dense-0-activation`.

    Source: arXiv:1607.06450; in critics, arXiv:2110.02034, section 3.
    """
    layers: list[Layer] = []
    places = {-1: -1}  # new indices of the layers' outputs by old index
    for i, layer in enumerate(layout.layers):
        layer = layer.moved(places)
        if type(layer) is Dense and i not in layout.outputs:
            at, shape = len(layers), layer.output_shape
            layers.append(replace(layer, activation="linear"))
            name = f"{layer.name}-norm"
            layers.append(
                LayerNorm(name=name, source=at, output_shape=shape, epsilon=_EPSILON)
            )
            layer = Activation(
                name=f"{layer.name}-activation",
                source=at + 1,
                output_shape=shape,
                activation=layer.activation,
            )
        layers.append(layer)
        places[i] = len(layers) - 1
    outputs = tuple(places[i] for i in layout.outputs)
    return replace(layout, layers=tuple(layers), outputs=outputs)
