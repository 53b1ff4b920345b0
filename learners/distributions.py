"""Action distributions as pure functions of tensors."""

import math

import tensorflow as tf


def categorical_log_prob(logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Return float32 [N] log-probabilities of int32 [N] actions under [N, n] logits."""
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, logits)


def categorical_entropy(logits: tf.Tensor) -> tf.Tensor:
    """Return float32 [N] entropies, in nats, of [N, n] logits."""
    log_probs = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=-1)


def gaussian_log_prob(
    means: tf.Tensor, log_std: tf.Tensor, actions: tf.Tensor
) -> tf.Tensor:
    """Return log-densities of a diagonal Gaussian, summed over dimensions.

    Args:
        means: float32 [N, A].
        log_std: float32 [A].
        actions: float32 [N, A].
    Returns:
        float32 [N].
    """
    scaled = (actions - means) * tf.exp(-log_std)
    constant = log_std + 0.5 * math.log(2 * math.pi)
    return -tf.reduce_sum(0.5 * tf.square(scaled) + constant, axis=-1)


def gaussian_entropy(log_std: tf.Tensor) -> tf.Tensor:
    """Return the float32 [] entropy, in nats, of a diagonal Gaussian."""
    return tf.reduce_sum(log_std + 0.5 * math.log(2 * math.pi * math.e))


def categorical_kl(old_logits: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return float32 [N] divergences KL(old ‖ new), in nats, of [N, n] logits."""
    old_log_probs = tf.nn.log_softmax(old_logits)
    ratios = old_log_probs - tf.nn.log_softmax(logits)
    return tf.reduce_sum(tf.exp(old_log_probs) * ratios, axis=-1)


def gaussian_kl(
    old_means: tf.Tensor,
    old_log_std: tf.Tensor,
    means: tf.Tensor,
    log_std: tf.Tensor,
) -> tf.Tensor:
    """Return divergences KL(old ‖ new) of diagonal Gaussians, in nats.

    Args:
        old_means: float32 [N, A].
        old_log_std: float32 [A].
        means: float32 [N, A].
        log_std: float32 [A].
    Returns:
        float32 [N], summed over dimensions.
    """
    narrower = 2 * (old_log_std - log_std)
    moved = tf.square((old_means - means) * tf.exp(-log_std))
    return 0.5 * tf.reduce_sum(tf.exp(narrower) - narrower - 1 + moved, axis=-1)
