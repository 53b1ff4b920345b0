"""Results of a phase's chunks are added up."""

import numpy as np
import tensorflow as tf

from xagents_ray.learners.phase_results import PhaseResults


def test_metrics_are_sums_and_errors_those_of_updates() -> None:
    """Two chunks of two batches; the second one was stopped after one."""
    results, rows = PhaseResults(), np.arange(24).reshape(4, 3, 2)
    errors = tf.reshape(tf.range(12.0), [4, 3])
    for part, updates in ((slice(2), 2.0), (slice(2, None), 1.0)):
        results.add_rows(rows[part])
        results.add(np.float32([5, updates]), errors[part])
    assert results.packed.tolist() == [10, 3]
    assert results.priorities is not None
    np.testing.assert_array_equal(results.priorities.rows, rows[:3].reshape(9, 2))
    assert results.priorities.errors.tolist() == [*range(9)]


def test_without_errors_there_are_no_priorities() -> None:
    results = PhaseResults()
    results.add_rows(None)
    results.add(np.float32([5, 1]), None)
    assert results.packed.tolist() == [5, 1]
    assert results.priorities is None
