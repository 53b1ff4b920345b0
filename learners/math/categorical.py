"""Distributions of returns over a fixed support, as C51 learns them."""

import tensorflow as tf

from xagents_ray.core.trajectory import FloatArray

__autograph__ = False


def projected_targets(
    rewards: tf.Tensor,
    discounts: tf.Tensor,
    next_probs: tf.Tensor,
    support: FloatArray,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return distributions of target returns, and the share of them that was clipped.

    Args:
        rewards: float32 [N].
        discounts: float32 [N], 0 where no value follows.
        next_probs: float32 [N, atoms], of the returns that follow.
        support: float32 [atoms], the returns, at equal distances.
    Returns:
        float32 [N, atoms] probabilities, and float32 [N]: the probability of returns
        that lie outside the support by more than half a distance of two atoms.
    Source: arXiv:1707.06887, algorithm 1.
    """
    low, high, distance = support[0], support[-1], support[1] - support[0]
    returns = rewards[:, None] + discounts[:, None] * support
    clipped = tf.clip_by_value(returns, low, high)
    is_outside = tf.abs(returns - clipped) > distance / 2
    share = tf.reduce_sum(tf.where(is_outside, next_probs, 0.0), axis=-1)
    # The part of each return's probability that each atom gets: [N, return, atom].
    parts = tf.nn.relu(1 - tf.abs(clipped[:, :, None] - support) / distance)
    return tf.einsum("nr,nra->na", next_probs, parts), share


def logits_of(logits: tf.Tensor, actions: tf.Tensor, atoms: int) -> tf.Tensor:
    """Return float32 [N, atoms], those of int [N] actions of [N, n * atoms]."""
    each = tf.reshape(logits, [-1, logits.shape[-1] // atoms, atoms])
    return tf.gather(each, actions, axis=1, batch_dims=1)
