"""Prioritized replay in the graph: importance weights and errors of samples.

Source: arXiv:1511.05952.
"""

from dataclasses import replace

import tensorflow as tf

from xagents_ray.core.trajectory import Trajectory, Transitions
from xagents_ray.learners.tensors import (
    SEQUENCE_BATCHES,
    TRANSITION_BATCHES,
    Phase,
    Reader,
)
from xagents_ray.settings.algorithm import AlgorithmConfig

__autograph__ = False

Errors = tuple[tf.Tensor, ...]
"""Errors of all samples, float32 [K, N]; empty if the replay samples uniformly.

Those of sequences are [K, 1, N].
"""
_LARGEST = 0.9
"""Share of a sequence's largest error in its priority; the rest is of the mean."""


def sampled_batches(config: AlgorithmConfig, has_memory: bool = False) -> Reader:
    """Return the reader of the replay's minibatches, of sequences with memory."""
    optional = list[str]()
    if config.replay is not None and config.replay.takes_errors:
        optional.append("priorities")
    if config.replay is not None and config.replay.sums_log_probs:
        optional.append("log_probs")
    reader = SEQUENCE_BATCHES if has_memory else TRANSITION_BATCHES
    return replace(reader, optional=tuple(optional))


def importance_weights(
    batch: Transitions | Trajectory, first_beta: float, phase: Phase
) -> tf.Tensor | None:
    """Return each sample's weight in the loss, float32 [N], at most 1; None if equal.

    Those of sequences are [1, N].

    A sample's probability is proportional to its priority, so the size of the replay
    and the sum of its priorities cancel out.

    Source: arXiv:1511.05952, section 3.4.
    """
    if batch.priorities is None:
        return None
    beta = 1 + (first_beta - 1) * phase.remaining
    return (tf.reduce_min(batch.priorities) / batch.priorities) ** beta


def no_errors(batches: Transitions | Trajectory) -> Errors:
    """Return zeros as the errors of K batches."""
    if batches.priorities is None:
        return ()
    return (tf.zeros_like(batches.priorities),)


def with_errors(errors: Errors, k: tf.Tensor, own: tf.Tensor) -> Errors:
    """Return the errors with the magnitudes of batch k's, float32 [N], inserted."""
    return tuple(
        tf.tensor_scatter_nd_update(every, [[k]], [tf.abs(own)]) for every in errors
    )


def sequence_errors(errors: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Return the error of each sequence, float32 [1, N], of those of its steps.

    The errors are float32 [T, N], and `valid`, bool [T, N], marks those that count.

    Source: "Recurrent Experience Replay in Distributed Reinforcement Learning", 2019.
    """
    counted = tf.cast(valid, tf.float32)
    sizes = tf.where(valid, tf.abs(errors), 0.0)
    largest, total = (f(sizes, 0, True) for f in (tf.reduce_max, tf.reduce_sum))
    mean = tf.math.divide_no_nan(total, tf.reduce_sum(counted, 0, True))
    return _LARGEST * largest + (1 - _LARGEST) * mean
