"""Loops of learning phases: passes over a rollout's rows, or over minibatches."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from xagents_ray.learners.metrics import Means, add_metrics
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, flatten_time
from xagents_ray.settings.algorithm import AlgorithmConfig

_T = TypeVar("_T")

_ROUNDS = 32
_HASH = (16, 0x7FEB352D), (15, 0x846CA68B - 2**32)
"""Shifts and factors that mix the bits of an int32."""


def countable(r: Any) -> tf.Tensor:
    """Return which rows of a rollout count, as `update_in_passes` takes them.

    That is bool [T * B], or with memory [T, B], as it needs whole sequences.
    """
    return flatten_time(r.valid) if r.recurrent_state is None else r.valid


def update_in_passes(
    update: Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]],
    valid: tf.Tensor,
    metrics: Means,
    passes: int,
    parts: int,
    phases: tf.Tensor,
    setup: LearnerSetup[AlgorithmConfig],
    may_end: bool = False,
) -> Means:
    """Update on minibatches of rows, or of environments, until the learner stops.

    Each pass shuffles these and splits them into parts of nearly equal size.

    Args:
        update: function of int32 [S] rows and bool [S], the rows that count, at least
            one. S is constant, because XLA compiles a program, and convolution kernels
            allocate memory, for each shape.
        valid: bool [N], rows that count; or [T, B] for minibatches of environments,
            each with all of its rows, time-major.
        metrics: metrics so far.
        passes: number of passes over all.
        parts: number of minibatches of a pass.
        phases: int64 [], number of phases before this one in the whole run.
        setup: setup of the learner.
        may_end: whether `update` returns `has_updated`, bool [], too; False ends all.
    Returns:
        The metrics with those of each update added.
    """
    count, continues = tf.shape(valid)[-1], tf.constant(True)
    for i in tf.range(passes):
        if setup.stopping or not continues:
            break
        seed = tf.stack([setup.seed, tf.cast(phases, tf.int32) * passes + i])
        order = shuffled_indices(count, seed)
        for j in tf.range(parts):
            rows, counted = _whole(valid, *_part(order, j, parts))
            if not may_end:
                if tf.reduce_any(counted):
                    metrics = add_metrics(metrics, update(rows, counted))
            elif continues and tf.reduce_any(counted):
                new = update(rows, counted)
                continues = new["has_updated"]
                metrics = add_metrics(metrics, new) if continues else metrics
    return metrics


def _part(order: tf.Tensor, j: tf.Tensor, parts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return part j of an order, [S], and bool [S], which entries belong to it."""
    count = tf.size(order)
    # The products may overflow an int32.
    large = tf.cast(count, tf.int64)
    begin, end = (
        tf.cast(tf.cast(n, tf.int64) * large // parts, tf.int32) for n in (j, j + 1)
    )
    places = begin + tf.range((count + parts - 1) // parts)
    return tf.gather(order, tf.minimum(places, count - 1)), places < end


def _whole(
    valid: tf.Tensor, part: tf.Tensor, is_own: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the rows of a part, and which of them count; see `update_in_passes`.

    `valid` is bool [N] or [T, B]. A part, int32 [S], has rows or environments, of which
    those that `is_own`, bool [S], belong to it.
    """
    if valid.shape.rank == 1:
        return part, tf.gather(valid, part) & is_own
    length, width = tf.unstack(tf.shape(valid))
    rows = tf.range(length)[:, None] * width + part
    return flatten_time(rows), flatten_time(tf.gather(valid, part, axis=1) & is_own)


def shuffled_indices(count: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Return a permutation of the numbers below `count`, int32 [N], by a seed.

    Each round pairs numbers, i with offset - i, and swaps random pairs. XLA could only
    shuffle by sorting, which takes five times as long.

    Args:
        count: number of indices, int32 [].
        seed: seed of the permutation, int32 [2].
    Source: Hoang, Morris, Rogaway, "An enciphering scheme based on a card shuffle",
        2012.
    """
    with tf.device("CPU"):  # a GPU takes longer to launch operations this small
        keys = tf.random.stateless_uniform([_ROUNDS, 2], seed, None, None, tf.int32)
        offsets, rows = tf.math.floormod(keys[:, 0], count), tf.range(count)
        for i in tf.range(_ROUNDS):
            other = offsets[i] - rows
            other += tf.where(other < 0, count, 0)
            hashed = tf.bitwise.bitwise_xor(tf.maximum(rows, other), keys[i, 1])
            for shift, factor in _HASH:
                mixed = tf.bitwise.right_shift(hashed, shift)
                hashed = tf.bitwise.bitwise_xor(hashed, mixed) * factor
            rows = tf.where(hashed < 0, other, rows)
        return rows


def update_on_batches(
    update: Callable[[tf.Tensor, _T], _T],
    metrics: _T,
    phase: Phase,
    setup: LearnerSetup[AlgorithmConfig],
) -> _T:
    """Update on each of a phase's batches, until the learner stops.

    `update` gets the index of a batch, int32 [], and the metrics so far, and returns
    these with its own added, as does this function.
    """
    k = tf.constant(0)
    # With `tf.range` XLA would compile a program for each number of batches.
    while k < phase.batches and not setup.stopping:
        metrics = update(k, metrics)
        k += 1
    return metrics
