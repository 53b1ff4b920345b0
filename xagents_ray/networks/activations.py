"""Activations in NumPy, by their Keras names."""

import math
from collections.abc import Callable

import numpy as np

from xagents_ray.core.trajectory import FloatArray

_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def softmax(x: FloatArray) -> FloatArray:
    """Return float32 [B, n] probabilities of [B, n] logits."""
    exp = np.exp(x - x.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


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
    """Return the error function, accurate to 1.5e-7.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    tail = np.zeros_like(t)
    for factor in _ERF:
        tail = (tail + np.float32(factor)) * t
    y: FloatArray = np.copysign(1 - tail * np.exp(-x * x), x)
    return y


ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0, out=x),
    "tanh": lambda x: np.tanh(x, out=x),
    "sigmoid": _sigmoid,
    "softmax": softmax,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(x, np.float32(0)),
    "gelu": _gelu,
    "silu": lambda x: x * _sigmoid(x),
    "selu": _selu,
    "leaky_relu": lambda x: np.where(x > 0, x, np.float32(0.2) * x),  # Keras' slope
}
ALIASES = {"swish": "silu"}
