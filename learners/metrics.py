"""Means of metrics over the updates of one learning phase, in the graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from xagents_ray.core.trajectory import FloatArray

__autograph__ = False


class Mean(NamedTuple):
    """Running means: float32 [M] totals, and the int32 [] number of values in each."""

    totals: tf.Tensor
    count: tf.Tensor


Means = dict[tuple[str, ...], Mean]
"""Means by groups of metric names that are added together."""


class AlgorithmOutputs(NamedTuple):
    """Results of one learning phase of an algorithm, in the graph.

    Attributes:
        means: means of its metrics.
        updates: int32 [], the number of its updates.
        errors: float32 [K, N], the absolute error of each sample, for a prioritized
            replay; None for any other.
    """

    means: Means
    updates: tf.Tensor
    errors: tf.Tensor | None = None


def no_means(*names: str) -> Means:
    """Return a group of means without values."""
    return {names: Mean(tf.zeros(len(names)), tf.constant(0))}


def add_metrics(means: Means, metrics: Mapping[str, tf.Tensor]) -> Means:
    """Return the means with one update's float32 [] metrics added."""
    return {
        # One addition for all: each operation in a loop costs time in every pass.
        names: Mean(mean.totals + tf.stack([metrics[n] for n in names]), mean.count + 1)
        for names, mean in means.items()
    }


def add_metrics_if(
    condition: tf.Tensor,
    update: Callable[[], Mapping[str, tf.Tensor]],
    means: Means,
) -> Means:
    """Make an update if the condition, bool [], holds; return the means with its own.

    `update` returns its float32 [] metrics.
    """
    return tf.cond(condition, lambda: add_metrics(means, update()), lambda: means)


def means_of_phase(metrics: Mapping[str, tf.Tensor], updates: tf.Tensor) -> Means:
    """Return float32 [] metrics of a whole phase as means, if it had any updates."""
    start = no_means(*metrics)
    return add_metrics_if(updates > 0, lambda: metrics, start) if metrics else {}


def pack_metrics(means: Means, updates: tf.Tensor) -> tf.Tensor:
    """Return means and the update count as one float32 tensor, to read them at once."""
    counts = tf.stack([*(mean.count for mean in means.values()), updates])
    totals = [mean.totals for mean in means.values()]
    return tf.concat([*totals, tf.cast(counts, tf.float32)], axis=0)


def unpack_metrics(
    groups: Sequence[tuple[str, ...]], packed: FloatArray
) -> dict[str, float]:
    """Return the metrics of `pack_metrics` by name, `updates` last.

    `groups` are the keys of the means, in order; those without values are left out.
    """
    *counts, updates = packed[-len(groups) - 1 :]
    metrics, begin = dict[str, float](), 0
    for group, count in zip(groups, counts, strict=True):
        totals, begin = packed[begin : begin + len(group)], begin + len(group)
        if count > 0:
            metrics |= zip(group, (totals / count).tolist(), strict=True)
    return {**metrics, "updates": int(updates)}


def update_count(means: Means) -> tf.Tensor:
    """Return the int32 [] number of updates that were added."""
    return sum(mean.count for mean in means.values())
