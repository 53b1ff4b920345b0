"""A network's forward pass in NumPy, for acting without TensorFlow."""

from collections.abc import Callable, Mapping

import numpy as np

from xagents_ray.core.moments import CLIP_RANGE, OBSERVATION, STD_EPSILON
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.layers import Flatten, Layer, Step
from xagents_ray.networks.layout import Layout


def bind_network(
    layout: Layout, arrays: Mapping[str, Array]
) -> Callable[..., list[FloatArray]]:
    """Return the network's forward pass with its weights bound, as a function.

    Args:
        layout: the network.
        arrays: float32 weights by name, `dense-0/kernel`, and float64 statistics.
    Returns:
        A function that maps [B, *input_shape], uint8 or float32, to a list with float32
        [B, units] per output. It normalizes the input if `arrays` has the arrays of
        `moments.statistics_shapes`. If layers are noisy, it takes an optional second
        argument: noise, float32 [B, noise_units].
    """
    normalize = _normalizing(arrays)
    scale = layout.scale if normalize is None else 1.0
    steps = [
        (
            layer.bind(arrays, scale if _is_first(layout, layer) else 1.0),
            layer.source,
            layer.more_sources,
            own,
        )
        for layer, own in zip(layout.layers, layout.noise_places, strict=True)
    ]

    def forward(x: Array, noise: FloatArray | None = None) -> list[FloatArray]:
        x = x if normalize is None else normalize(x)
        values: list[FloatArray] = []
        for step, source, more, own in steps:
            read = x if source < 0 else values[source]
            if more:
                read = np.concatenate([read, *(values[i] for i in more)], axis=-1)
            if noise is None or own is None:
                values.append(step(read))
            else:
                values.append(step(read, noise[:, own]))
        return [values[i] for i in layout.outputs]

    return forward


def _normalizing(arrays: Mapping[str, Array]) -> Step | None:
    """Return a function that normalizes observations; None without statistics."""
    if f"{OBSERVATION}/mean" not in arrays:
        return None
    mean = arrays[f"{OBSERVATION}/mean"]
    scale = 1 / np.sqrt(arrays[f"{OBSERVATION}/variance"] + STD_EPSILON)

    def normalize(x: Array) -> FloatArray:
        clipped: Array = np.clip((x - mean) * scale, -CLIP_RANGE, CLIP_RANGE)
        return clipped.astype(np.float32)

    return normalize


def _is_first(layout: Layout, layer: Layer) -> bool:
    """Return whether a layer reads the input, directly or flattened."""
    while layer.source >= 0:
        layer = layout.layers[layer.source]
        if not isinstance(layer, Flatten):
            return False
    return True
