"""Distributions of returns over a fixed support, as in C51."""

import tensorflow as tf

from xagents_ray.core.trajectory import FloatArray

__autograph__ = False


def projected_targets(
    rewards: tf.Tensor,
    discounts: tf.Tensor,
    next_probs: tf.Tensor,
    support: FloatArray,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return target distributions of returns, and the share that was clipped.

    Args:
        rewards: float32 [N].
        discounts: float32 [N], 0 where no value follows.
        next_probs: float32 [N, atoms], probabilities of the next observation's returns.
        support: float32 [atoms], equally spaced returns.
    Returns:
        float32 [N, atoms] probabilities, and float32 [N]: the probability of returns
        outside the support by more than half the distance between atoms.
    Source: arXiv:1707.06887, algorithm 1.
    """
    low, high, distance = support[0], support[-1], support[1] - support[0]
    returns = rewards[:, None] + discounts[:, None] * support
    clipped = tf.clip_by_value(returns, low, high)
    is_outside = tf.abs(returns - clipped) > distance / 2
    share = tf.reduce_sum(tf.where(is_outside, next_probs, 0.0), axis=1)
    # The fraction of each return's probability for each atom: [N, return, atom].
    parts = tf.nn.relu(1 - tf.abs(clipped[:, :, None] - support) / distance)
    return tf.einsum("nr,nra->na", next_probs, parts), share


def logits_of(logits: tf.Tensor, actions: tf.Tensor, atoms: int) -> tf.Tensor:
    """Return the logits of int [N] actions, float32 [N, atoms], of [N, n * atoms]."""
    each = tf.reshape(logits, [-1, logits.shape[1] // atoms, atoms])
    return tf.gather(each, actions, axis=1, batch_dims=1)
