"""Normal noise in the graph: a seed gives the same numbers with XLA and without."""

import tensorflow as tf


def normal_noise(seed: int, update: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Return standard normal float32 noise, the same whenever this update is done.

    `update`, int64 [], is how many went before in the whole run of this seed.
    """
    return standard_normal(tf.stack([tf.constant(seed, tf.int64), update]), shape)


def standard_normal(seed: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Return standard normal float32 numbers of a seed, int [2].

    `tf.random.stateless_normal` has other numbers for the same seed under XLA.
    """
    return normal_of(tf.random.stateless_uniform(shape, seed, None, None, tf.int32))


def normal_of(bits: tf.Tensor) -> tf.Tensor:
    """Return standard normal float32 numbers of random int32 ones, any shape."""
    # 24 bits, which float32 holds exactly, from just above -1 to just below 1
    uniform = (tf.cast(tf.bitwise.right_shift(bits, 8), tf.float32) + 0.5) / 2**23
    # Of the lower tail: numbers next to 1 would be rounded to it.
    return -tf.sign(uniform) * tf.math.ndtri((1 - tf.abs(uniform)) / 2)
