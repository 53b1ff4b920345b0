"""Means of metrics over the updates of one learning phase, in the graph."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf


class Mean(NamedTuple):
    """Means in the making: float32 [M] totals of int32 [] values each."""

    totals: tf.Tensor
    count: tf.Tensor


Means = dict[tuple[str, ...], Mean]
"""By the names of metrics that come together; those of no values are left out."""


def no_means(*names: str) -> Means:
    """Return means of nothing yet."""
    return {names: Mean(tf.zeros(len(names)), tf.constant(0))}


def add(means: Means, metrics: Mapping[str, tf.Tensor]) -> Means:
    """Return the means with one update's float32 [] metrics."""
    return {
        # One addition for all: a loop pays for each operation in each of its passes.
        names: Mean(mean.totals + tf.stack([metrics[n] for n in names]), mean.count + 1)
        for names, mean in means.items()
    }


def added(means: Means) -> tf.Tensor:
    """Return the int32 [] number of updates that were added."""
    return sum(mean.count for mean in means.values())
