"""Means of metrics over the updates of one learning phase, in the graph."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf


class Mean(NamedTuple):
    """A mean in the making: float32 [] total of int32 [] values."""

    total: tf.Tensor
    count: tf.Tensor


Means = dict[str, Mean]
"""By name; one of no values is left out of a phase's metrics."""


def no_means(*names: str) -> Means:
    """Return means of nothing yet."""
    return {name: Mean(tf.constant(0.0), tf.constant(0)) for name in names}


def add(means: Means, metrics: Mapping[str, tf.Tensor]) -> Means:
    """Return the means with one update's float32 [] metrics."""
    return {
        name: Mean(mean.total + metrics[name], mean.count + 1)
        for name, mean in means.items()
    }
