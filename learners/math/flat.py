"""Tensors of several shapes as one vector."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from xagents_ray.core.trajectory import Array

__autograph__ = False


def concat_flat(tensors: Sequence[Any]) -> tf.Tensor:
    """Return tensors or variables concatenated, [P]."""
    return tf.concat([tf.reshape(x, [-1]) for x in tensors], axis=0)


def assign_flat(variables: Sequence[Any], flat: tf.Tensor) -> None:
    """Assign values [P] to variables, in the order of `concat_flat`."""
    parts = tf.split(flat, [math.prod(tuple(x.shape)) for x in variables])
    for variable, part in zip(variables, parts, strict=True):
        variable.assign(tf.reshape(part, variable.shape))


def split_flat(flat: Array, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Return the arrays of variables by name from a vector, without copying it.

    The vector, [P], is in the order of `concat_flat`; the shapes are by name.
    """
    arrays, begin = dict[str, Array](), 0
    for name, shape in shapes.items():
        end = begin + math.prod(shape)
        arrays[name] = flat[begin:end].reshape(shape)
        begin = end
    return arrays
