"""Learning from prioritized replay: weights of samples, and their errors, in the graph.

Source: arXiv:1511.05952.
"""

import tensorflow as tf

from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners.tensors import (
    PRIORITIZED_BATCHES,
    TRANSITION_BATCHES,
    Phase,
    Reader,
)
from xagents_ray.settings.algorithm import AlgorithmConfig

__autograph__ = False

Errors = tuple[tf.Tensor, ...]
"""float32 [K, N], of each sample; nothing where the replay samples uniformly."""


def sampled_batches(config: AlgorithmConfig) -> Reader:
    """Return the reader of what the replay samples."""
    takes_errors = config.replay is not None and config.replay.takes_errors
    return PRIORITIZED_BATCHES if takes_errors else TRANSITION_BATCHES


def importance_weights(
    batch: Transitions, first_beta: float, phase: Phase
) -> tf.Tensor | None:
    """Return float32 [N], what each sample's loss weighs, 1 at most; None if alike.

    A sample's probability is in proportion to its priority, so the size of the replay
    and the sum of its priorities cancel out.

    Source: arXiv:1511.05952, section 3.4.
    """
    if batch.priorities is None:
        return None
    beta = 1 + (first_beta - 1) * phase.remaining
    return (tf.reduce_min(batch.priorities) / batch.priorities) ** beta


def no_errors(batches: Transitions) -> Errors:
    """Return the errors of K batches that were not learned from."""
    if batches.priorities is None:
        return ()
    return (tf.zeros_like(batches.priorities),)


def with_errors(errors: Errors, k: tf.Tensor, own: tf.Tensor) -> Errors:
    """Return the errors with those of batch k, float32 [N]."""
    return tuple(
        tf.tensor_scatter_nd_update(every, [[k]], [tf.abs(own)]) for every in errors
    )
