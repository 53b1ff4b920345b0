"""Prioritized replay in the graph: importance weights and errors of samples.

Source: arXiv:1511.05952.
"""

from dataclasses import replace

import tensorflow as tf

from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners.tensors import TRANSITION_BATCHES, Phase, Reader
from xagents_ray.settings.algorithm import AlgorithmConfig

__autograph__ = False

Errors = tuple[tf.Tensor, ...]
"""Errors of all samples, float32 [K, N]; empty if the replay samples uniformly."""


def sampled_batches(config: AlgorithmConfig) -> Reader:
    """Return the reader of the replay's minibatches."""
    optional = list[str]()
    if config.replay is not None and config.replay.takes_errors:
        optional.append("priorities")
    if config.replay is not None and config.replay.sums_log_probs:
        optional.append("log_probs")
    return replace(TRANSITION_BATCHES, optional=tuple(optional))


def importance_weights(
    batch: Transitions, first_beta: float, phase: Phase
) -> tf.Tensor | None:
    """Return each sample's weight in the loss, float32 [N], at most 1; None if equal.

    A sample's probability is proportional to its priority, so the size of the replay
    and the sum of its priorities cancel out.

    Source: arXiv:1511.05952, section 3.4.
    """
    if batch.priorities is None:
        return None
    beta = 1 + (first_beta - 1) * phase.remaining
    return (tf.reduce_min(batch.priorities) / batch.priorities) ** beta


def no_errors(batches: Transitions) -> Errors:
    """Return zeros as the errors of K batches."""
    if batches.priorities is None:
        return ()
    return (tf.zeros_like(batches.priorities),)


def with_errors(errors: Errors, k: tf.Tensor, own: tf.Tensor) -> Errors:
    """Return the errors with the magnitudes of batch k's, float32 [N], inserted."""
    return tuple(
        tf.tensor_scatter_nd_update(every, [[k]], [tf.abs(own)]) for every in errors
    )
