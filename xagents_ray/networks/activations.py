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


def _log_softmax(x: FloatArray) -> FloatArray:
    x = x - x.max(axis=-1, keepdims=True)
    y: FloatArray = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
    return y


def _sparsemax(x: FloatArray) -> FloatArray:
    """Return what Keras calls sparsemax, float32 [B, n].

    Its threshold adds up the cumulative sums of all nonzero probabilities, where
    arXiv:1602.02068, algorithm 1, has the last one: with more than one of them, the
    result differs from the paper's. Networks have to act as they learn.
    """
    falling: FloatArray = np.sort(x, axis=-1)[..., ::-1]
    sums: FloatArray = np.cumsum(falling, axis=-1)
    counts = np.arange(1, x.shape[-1] + 1, dtype=np.float32)
    is_nonzero = falling - (sums - 1) / counts > 0
    total: FloatArray = np.where(is_nonzero, sums, 0).sum(axis=-1, keepdims=True)
    threshold = (total - 1) / is_nonzero.sum(axis=-1, keepdims=True, dtype=np.float32)
    y: FloatArray = np.maximum(x - threshold, 0)
    return y


def _softplus(x: FloatArray) -> FloatArray:
    y: FloatArray = np.logaddexp(x, np.float32(0))
    return y


def _hard_sigmoid(x: FloatArray) -> FloatArray:
    y: FloatArray = np.clip(x / 6 + np.float32(0.5), 0, 1)
    return y


def _elu(x: FloatArray) -> FloatArray:
    y: FloatArray = np.where(x > 0, x, np.expm1(np.minimum(x, 0)))
    return y


def _shrink(x: FloatArray, bias: float) -> FloatArray:
    """Return numbers moved towards 0 by the bias; those within 0.5 of 0 become 0."""
    moved = x - np.copysign(np.float32(bias), x)
    y: FloatArray = np.where(np.abs(x) > np.float32(0.5), moved, np.float32(0))
    return y


def _sparse_plus(x: FloatArray) -> FloatArray:
    y: FloatArray = np.square(np.clip(x, -1, 1) + np.float32(1)) / np.float32(4)
    y += np.maximum(x - np.float32(1), np.float32(0))
    return y


ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0, out=x),
    "tanh": lambda x: np.tanh(x, out=x),
    "sigmoid": _sigmoid,
    "softmax": softmax,
    "elu": _elu,
    "softplus": _softplus,
    "gelu": _gelu,
    "silu": lambda x: x * _sigmoid(x),
    "selu": _selu,
    "leaky_relu": lambda x: np.where(x > 0, x, np.float32(0.2) * x),  # Keras' slope
    "celu": _elu,  # the same for an alpha of 1, Keras' default
    "exponential": np.exp,
    "hard_shrink": lambda x: _shrink(x, 0.0),
    "hard_sigmoid": _hard_sigmoid,
    "hard_silu": lambda x: x * _hard_sigmoid(x),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "log_sigmoid": lambda x: -_softplus(-x),
    "log_softmax": _log_softmax,
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "relu6": lambda x: np.clip(x, 0, 6),
    "soft_shrink": lambda x: _shrink(x, 0.5),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda x: np.clip(x / 2 + np.float32(0.5), 0, 1),
    "sparsemax": _sparsemax,
    "squareplus": lambda x: (x + np.sqrt(np.square(x) + 4)) / 2,
    "tanh_shrink": lambda x: x - np.tanh(x),
}
ALIASES = {"swish": "silu", "hard_swish": "hard_silu"}
