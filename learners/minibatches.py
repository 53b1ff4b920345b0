"""Loops of learning phases: passes over a rollout's rows, or over minibatches."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from xagents_ray.learners.metrics import Means, add_metrics, add_metrics_if
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

    def one_pass(
        i: tf.Tensor, metrics: Means, continues: tf.Tensor
    ) -> tuple[tf.Tensor, Means, tf.Tensor]:
        seed = tf.stack([setup.seed, tf.cast(phases, tf.int32) * passes + i])
        order = shuffled_indices(tf.shape(valid)[-1], seed)
        ended = _pass_over(order, update, valid, metrics, continues, parts, may_end)
        return i + 1, *ended

    _, metrics, _ = tf.while_loop(
        lambda i, _, continues: (i < passes) & continues & ~setup.stopping,
        one_pass,
        (tf.constant(0), metrics, tf.constant(True)),
    )
    return metrics


def _pass_over(
    order: tf.Tensor,
    update: Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]],
    valid: tf.Tensor,
    metrics: Means,
    continues: tf.Tensor,
    parts: int,
    may_end: bool,
) -> tuple[Means, tf.Tensor]:
    """Update on each part of an order, int32 [N]; see `update_in_passes`.

    Return the metrics, and whether later updates may follow, bool [], as `continues`.
    """

    def updated(
        rows: tf.Tensor, counted: tf.Tensor, metrics: Means
    ) -> tuple[Means, tf.Tensor]:
        new = update(rows, counted)
        if not may_end:
            return add_metrics(metrics, new), tf.constant(True)
        has_updated = new["has_updated"]
        return add_metrics_if(has_updated, lambda: new, metrics), has_updated

    def one_part(
        j: tf.Tensor, metrics: Means, continues: tf.Tensor
    ) -> tuple[tf.Tensor, Means, tf.Tensor]:
        rows, counted = _whole(valid, *_part(order, j, parts))
        ended = tf.cond(
            continues & tf.reduce_any(counted),
            lambda: updated(rows, counted, metrics),
            lambda: (metrics, continues),
        )
        return j + 1, *ended

    start = tf.constant(0), metrics, continues
    _, metrics, continues = tf.while_loop(lambda j, *_: j < parts, one_part, start)
    return metrics, continues


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

        def swap(i: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            other = offsets[i] - rows
            other += tf.where(other < 0, count, 0)
            hashed = tf.bitwise.bitwise_xor(tf.maximum(rows, other), keys[i, 1])
            for shift, factor in _HASH:
                mixed = tf.bitwise.right_shift(hashed, shift)
                hashed = tf.bitwise.bitwise_xor(hashed, mixed) * factor
            return i + 1, tf.where(hashed < 0, other, rows)

        start = tf.constant(0), rows
        return tf.while_loop(lambda i, _: i < _ROUNDS, swap, start)[1]


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
    # With `maximum_iterations` XLA would compile a program for each number of batches.
    _, metrics = tf.while_loop(
        lambda k, _: (k < phase.batches) & ~setup.stopping,
        lambda k, metrics: (k + 1, update(k, metrics)),
        (tf.constant(0), metrics),
    )
    return metrics
