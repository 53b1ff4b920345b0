"""A network's forward pass in NumPy, for acting without TensorFlow."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from xagents_ray.core.moments import CLIP_RANGE, OBSERVATION, STD_EPSILON
from xagents_ray.core.spec import VECTOR
from xagents_ray.core.trajectory import Array, FloatArray, Observations
from xagents_ray.networks.inputs import Selection
from xagents_ray.networks.layers import Flatten, Layer, Step
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx_trunk import OnnxTrunk

Values = dict[int, FloatArray]
"""Outputs of layers by their indices."""
Join = Callable[[Sequence[Array], Values], Any]
"""Returns what a layer reads, given the input arrays and the outputs of layers."""
Begin = Callable[[Sequence[Array]], Values]
"""Returns the outputs of layers that are computed elsewhere, given the inputs."""


def bind_network(
    layout: Layout, arrays: Mapping[str, Array], trunk: OnnxTrunk | None = None
) -> Callable[..., Any]:
    """Return the network's forward pass with its weights bound, as a function.

    Args:
        layout: the network.
        arrays: float32 weights by name, `dense-0/kernel`, and float64 statistics.
        trunk: computes some of the layers; None to compute all in NumPy.
    Returns:
        A function that maps [B, *input_shape], uint8 or float32, or a dict of such
        arrays if the network reads several, to a list with float32 [B, units] per
        output. It normalizes the vectors of the input if `arrays` has the arrays of
        `moments.statistics_shapes`. If layers are noisy, it takes an optional second
        argument: noise, float32 [B, noise_units]. If the network has memory, it also
        takes `state`, float32 [B, state_units], and returns that list and the next
        state.
    """
    normalize = _normalizing(arrays)
    begin: Begin = (lambda inputs: {}) if trunk is None else trunk.bind(arrays)
    elsewhere = () if trunk is None else trunk.places
    steps = _bound_layers(layout, arrays, normalize is not None, elsewhere)
    names = [each.name for each in layout.inputs]
    if layout.state_units:
        return _recurrent_forward(layout, steps, normalize, begin)

    def forward(x: Observations, noise: FloatArray | None = None) -> list[FloatArray]:
        x = x if normalize is None else normalize(x)
        inputs = [x[name] for name in names] if names else [x]
        values = begin(inputs)
        for i, step, source, join, own in steps:
            read = inputs[-1 - source] if source < 0 else values[source]
            if join is not None:
                read = join(inputs, values)
            if noise is None or own is None:
                values[i] = step(read)
            else:
                values[i] = step(read, noise[:, own])
        return [values[i] for i in layout.outputs]

    return forward


def _bound_layers(
    layout: Layout,
    arrays: Mapping[str, Array],
    is_normalized: bool,
    elsewhere: Collection[int],
) -> list[tuple[int, Step, int, Join | None, slice | None]]:
    """Return the layers that are not computed elsewhere, with their weights bound.

    For each one: its index, forward pass, source, function that joins what it reads,
    and its slice of a noise vector.
    """
    scales = _scales(layout, is_normalized)
    return [
        (
            i,
            layer.bind(arrays, 1.0 if layer.more_sources else scales[layer.source]),
            layer.source,
            _join_of(layer, layout, scales),
            own,
        )
        for i, (layer, own) in enumerate(
            zip(layout.layers, layout.noise_places, strict=True)
        )
        if i not in elsewhere
    ]


def _recurrent_forward(
    layout: Layout,
    steps: Sequence[Any],
    normalize: Callable[[Any], Any] | None,
    begin: Begin,
) -> Callable[..., tuple[list[FloatArray], FloatArray]]:
    """Return the forward pass of a network with memory; see `bind_network`."""
    names = [each.name for each in layout.inputs]
    places = layout.state_places

    def forward(
        x: Observations, noise: FloatArray | None = None, *, state: FloatArray
    ) -> tuple[list[FloatArray], FloatArray]:
        x = x if normalize is None else normalize(x)
        inputs = [x[name] for name in names] if names else [x]
        values = begin(inputs)
        states: list[FloatArray] = []
        for i, step, source, join, own in steps:
            read = inputs[-1 - source] if source < 0 else values[source]
            if join is not None:
                read = join(inputs, values)
            if (place := places[i]) is not None:
                values[i], after = step(read, state[:, place])
                states.append(after)
            elif noise is None or own is None:
                values[i] = step(read)
            else:
                values[i] = step(read, noise[:, own])
        after = states[0] if len(states) == 1 else np.concatenate(states, axis=-1)
        return [values[i] for i in layout.outputs], after

    return forward


def _normalizing(arrays: Mapping[str, Array]) -> Callable[[Any], Any] | None:
    """Return a function that normalizes observations; None without statistics.

    Of several arrays, it normalizes the vectors.
    """
    if f"{OBSERVATION}/mean" not in arrays:
        return None
    mean = arrays[f"{OBSERVATION}/mean"]
    scale = 1 / np.sqrt(arrays[f"{OBSERVATION}/variance"] + STD_EPSILON)

    def normalize(x: Any) -> Any:
        if isinstance(x, dict):
            return {**x, VECTOR: normalize(x[VECTOR])}
        clipped: Array = np.clip((x - mean) * scale, -CLIP_RANGE, CLIP_RANGE)
        return clipped.astype(np.float32)

    return normalize


def _scales(layout: Layout, is_normalized: bool) -> dict[int, float]:
    """Return the factor by which a layer scales what it reads, by its source.

    It is 1 for outputs of layers other than those that only pass on the input.
    """
    scales = {
        -1 - i: 1.0 if is_normalized and each.name in ("", VECTOR) else each.scale
        for i, each in enumerate(layout.arrays)
    }
    for i, layer in enumerate(layout.layers):
        passes_on = isinstance(layer, Flatten | Selection) and not layer.more_sources
        scales[i] = scales[layer.source] if passes_on else 1.0
    return scales


def _join_of(layer: Layer, layout: Layout, scales: Mapping[int, float]) -> Join | None:
    """Return a function of what a layer reads; None if that is its source alone.

    It scales inputs, so that the layer doesn't.
    """
    if layer.reads_inputs:
        own = [np.float32(scales[-1 - i]) for i in range(len(layout.arrays))]
        return lambda inputs, values: [
            x.astype(np.float32) * scale for x, scale in zip(inputs, own, strict=True)
        ]
    if not layer.more_sources:
        return None
    pairs = [(i, np.float32(scales[i])) for i in layer.sources]

    def join(inputs: Sequence[Array], values: Values) -> Array:
        read = [(inputs[-1 - i] if i < 0 else values[i], scale) for i, scale in pairs]
        parts = [x if scale == 1 else x * scale for x, scale in read]
        return np.concatenate(parts, axis=-1)

    return join
