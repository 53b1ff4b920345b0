"""Passes over a rollout's rows."""

from collections import Counter
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from xagents_ray.learners.metrics import no_means
from xagents_ray.learners.minibatches import (
    _part,
    shuffled_indices,
    update_in_passes,
    update_on_batches,
)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 1000])
def test_an_order_has_each_row_once(count: int) -> None:
    orders = [
        shuffled_indices(tf.constant(count), tf.constant([3, i])) for i in range(3)
    ]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(count))
    assert count < 64 or not np.array_equal(orders[0], orders[1])


@pytest.mark.parametrize("count", [5, 64])
def test_an_order_takes_32_rounds_of_swaps(count: int) -> None:
    """Each round swaps i with offset - i if a hash of the larger one is negative."""
    seed = tf.constant([3, 9])
    keys = tf.random.stateless_uniform([32, 2], seed, None, None, tf.int32).numpy()
    order = np.arange(count)
    for offset, key in keys:
        other = (offset % count - order) % count
        hashed = np.maximum(order, other).astype(np.int32) ^ key
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B - 2**32)):
            hashed = (hashed ^ (hashed >> shift)) * np.int32(factor)
        order = np.where(hashed < 0, other, order)
    np.testing.assert_array_equal(shuffled_indices(tf.constant(count), seed), order)


def test_all_orders_are_as_likely() -> None:
    """Chi-squared of the 24 orders of 4 rows; 49.7 would be one in a thousand."""
    shuffle = tf.function(lambda seed: shuffled_indices(tf.constant(4), seed))
    drawn = 2400
    counts = Counter(
        tuple(shuffle(tf.constant([7, i])).numpy().tolist()) for i in range(drawn)
    )
    expected = drawn / 24
    errors = (counts[order] - expected for order in permutations(range(4)))
    assert sum(error**2 for error in errors) / expected < 49.7


@pytest.mark.parametrize(("rows", "parts"), [(12, 3), (13, 4), (3, 5)])
@pytest.mark.parametrize("compiled", [False, True])
def test_each_valid_row_counts_once_a_pass(
    rows: int, parts: int, compiled: bool
) -> None:
    """A part without any is left out; all have one shape."""
    valid = np.arange(rows) % 4 != 1
    setup: Any = SimpleNamespace(seed=3, stopping=tf.Variable(False))

    def update(chosen: tf.Tensor, counted: tf.Tensor) -> dict[str, tf.Tensor]:
        weights = tf.cast(counted, tf.float32)
        bits = 2.0 ** tf.cast(chosen, tf.float32)
        size = tf.cast(tf.size(chosen), tf.float32)
        total, count = tf.reduce_sum(weights * bits), tf.reduce_sum(weights)
        return {"bits": total, "rows": count, "size": size}

    @tf.function(jit_compile=compiled)
    def learn(phases: tf.Tensor) -> Any:
        flags, metrics = tf.constant(valid), no_means("bits", "rows", "size")
        return update_in_passes(update, flags, metrics, 2, parts, phases, setup)

    (mean,) = learn(tf.constant(5, tf.int64)).values()
    bits = 2.0 ** np.flatnonzero(valid)
    np.testing.assert_array_equal(mean.totals[:2], [2 * bits.sum(), 2 * valid.sum()])
    assert mean.totals[2] == float(mean.count) * -(-rows // parts)
    assert mean.count <= 2 * min(parts, rows)


def test_parts_of_many_rows_are_whole() -> None:
    """Their number times that of the rows is more than an int32 holds."""
    count, parts = 2**20, 4096
    order = tf.range(count)
    for j in (0, 2047, 2048, parts - 1):
        rows, is_own = _part(order, tf.constant(j), parts)
        assert rows[is_own].numpy().tolist() == [*range(256 * j, 256 * (j + 1))]
        assert len(rows) == 256  # none is computed in vain


def test_each_batch_of_a_phase_is_learned_from_in_order() -> None:
    phase: Any = SimpleNamespace(batches=5)
    setup: Any = SimpleNamespace(stopping=tf.constant(False))
    seen: list[int] = []

    def update(k: Any, metrics: int) -> int:
        seen.append(int(k))
        return metrics + 1

    assert update_on_batches(update, 0, phase, setup) == 5
    assert seen == [0, 1, 2, 3, 4]
