"""Minibatches of a rollout's rows."""

import tensorflow as tf


def shuffled(
    rows: tf.Tensor, seed: int, phases: tf.Tensor, passes: int, number: tf.Tensor
) -> tf.Tensor:
    """Return rows in an order of their own for each pass of each learning phase.

    Args:
        rows: int64 [N].
        seed: of the run.
        phases: int64 [], how many went before in the whole run.
        passes: over each phase's rows.
        number: int32 [], of the pass within its phase.
    """
    own = tf.stack([seed, tf.cast(phases, tf.int32) * passes + number])
    return tf.random.experimental.stateless_shuffle(rows, own)


def filled(rows: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Return rows, repeated from the first one on up to a size."""
    return tf.gather(rows, tf.range(size) % tf.size(rows))
