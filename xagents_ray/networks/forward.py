"""A network's forward pass in NumPy, so that acting needs no TensorFlow."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xagents_ray.core.moments import EPSILON, LARGEST, OBSERVATION
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.layout import Layer, Layout

Step = Callable[[Array], FloatArray]


def softmax(x: FloatArray) -> FloatArray:
    """Return float32 [B, n] probabilities of [B, n] logits."""
    exp = np.exp(x - x.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def _elu(x: FloatArray) -> FloatArray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _sigmoid(x: FloatArray) -> FloatArray:
    y: FloatArray = 0.5 + 0.5 * np.tanh(0.5 * x)
    return y


def _selu(x: FloatArray) -> FloatArray:
    scale, alpha = np.float32(1.0507009873554805), np.float32(1.6732632423543772)
    y: FloatArray = scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))
    return y


def _gelu(x: FloatArray) -> FloatArray:
    y: FloatArray = np.float32(0.5) * x * (1 + _erf(x * np.float32(math.sqrt(0.5))))
    return y


def _erf(x: FloatArray) -> FloatArray:
    """Return the error function to 1.5e-7.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    tail = np.zeros_like(t)
    for factor in _ERF:
        tail = (tail + np.float32(factor)) * t
    y: FloatArray = np.copysign(1 - tail * np.exp(-x * x), x)
    return y


_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ACTIVATE: dict[str, Callable[[FloatArray], FloatArray]] = {
    "relu": lambda x: np.maximum(x, 0, out=x),
    "tanh": lambda x: np.tanh(x, out=x),
    "sigmoid": _sigmoid,
    "softmax": softmax,
    "elu": _elu,
    "softplus": lambda x: np.logaddexp(x, np.float32(0)),
    "gelu": _gelu,
    "silu": lambda x: x * _sigmoid(x),
    "selu": _selu,
    "leaky_relu": lambda x: np.where(x > 0, x, np.float32(0.2) * x),  # Keras' slope
}


def _columns(x: Array, size: int, stride: int) -> Array:
    """Return the patches of [B, H, W, C] as [B * h * w, size * size * C]."""
    batch, height, width, channels = x.shape
    out = ((height - size) // stride + 1, (width - size) // stride + 1)
    b, h, w, c = x.strides
    patches = as_strided(
        x,
        (batch, *out, size, size, channels),
        (b, h * stride, w * stride, h, w, c),
        writeable=False,
    )
    return patches.reshape(-1, size * size * channels)


def _step(layer: Layer, arrays: Mapping[str, FloatArray], scale: float) -> Step:
    """Return the function of one layer with its weights bound."""
    if layer.kind == "flatten":
        return lambda x: x.reshape(len(x), -1)
    kernel, bias = arrays[f"{layer.name}/kernel"], arrays[f"{layer.name}/bias"]
    if scale != 1:
        kernel = kernel * np.float32(scale)
    activate = _ACTIVATE.get(layer.activation)

    def dense(x: Array) -> FloatArray:
        if x.dtype != np.float32:
            x = x.astype(np.float32)
        y: FloatArray = x @ kernel
        y += bias
        return activate(y) if activate else y

    if layer.kind == "dense":
        return dense
    kernel = kernel.reshape(-1, layer.units)

    def convolution(x: Array) -> FloatArray:
        columns = _columns(np.ascontiguousarray(x), layer.size, layer.stride)
        return dense(columns).reshape(-1, *layer.output_shape)

    return convolution


def bind(
    layout: Layout, arrays: Mapping[str, FloatArray]
) -> Callable[[Array], list[FloatArray]]:
    """Return the network with its weights bound, as a function.

    Args:
        layout: the network.
        arrays: float32 weights by name, `dense-0/kernel`.
    Returns:
        A function from [B, *input_shape], uint8 or float32, to float32 [B, units]
        of each output. With arrays of `moments.shapes` it normalises first.
    """
    normalize = _normalizing(arrays)
    scale = layout.scale if normalize is None else 1.0
    steps = [
        (
            _step(layer, arrays, scale if _first(layout, layer) else 1.0),
            layer.source,
        )
        for layer in layout.layers
    ]

    def forward(x: Array) -> list[FloatArray]:
        x = x if normalize is None else normalize(x)
        values: list[FloatArray] = []
        for step, source in steps:
            values.append(step(x if source < 0 else values[source]))
        return [values[i] for i in layout.outputs]

    return forward


def _normalizing(arrays: Mapping[str, FloatArray]) -> Step | None:
    """Return what shifts, scales and clips observations; None without statistics."""
    if f"{OBSERVATION}/mean" not in arrays:
        return None
    mean = arrays[f"{OBSERVATION}/mean"]
    scale = 1 / np.sqrt(arrays[f"{OBSERVATION}/variance"] + np.float32(EPSILON))
    return lambda x: np.clip((x - mean) * scale, -LARGEST, LARGEST, dtype=np.float32)


def _first(layout: Layout, layer: Layer) -> bool:
    """Whether the layer is the first with weights on its path, which scales."""
    if layer.kind == "flatten":
        return False
    while layer.source >= 0:
        layer = layout.layers[layer.source]
        if layer.kind != "flatten":
            return False
    return True
