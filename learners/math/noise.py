"""Normal noise in the graph: a seed gives the same numbers with and without XLA."""

import tensorflow as tf


def normal_noise(seed: int, update: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Return standard normal float32 noise, determined by the seed and the update.

    `update`, int64 [], is the index of the update, or of its draw, in the run.
    """
    return standard_normal(tf.stack([tf.constant(seed, tf.int64), update]), shape)


def standard_normal(seed: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Return standard normal float32 numbers for a seed, int [2].

    `tf.random.stateless_normal` gives other numbers for the same seed under XLA.
    """
    return normal_of(tf.random.stateless_uniform(shape, seed, None, None, tf.int32))


def normal_of(bits: tf.Tensor) -> tf.Tensor:
    """Convert uniformly random int32 numbers to standard normal float32, any shape."""
    # 24 bits, which float32 holds exactly, from just above -1 to just below 1
    uniform = (tf.cast(tf.bitwise.right_shift(bits, 8), tf.float32) + 0.5) / 2**23
    # Use the lower tail: probabilities next to 1 would be rounded to it.
    return -tf.sign(uniform) * tf.math.ndtri((1 - tf.abs(uniform)) / 2)
