"""Losses as pure functions of tensors; each is a mean over its batch, float32 [].

Unless stated otherwise, arguments are float32 [N]: `log_probs` of the actions under the
policy being learned, `old_log_probs` under the behavior policy, and `advantages`. Rows
that are not `valid`, bool [N], are ignored.
"""

import tensorflow as tf

__autograph__ = False


def normalize(advantages: tf.Tensor, epsilon: float, valid: tf.Tensor) -> tf.Tensor:
    """Return advantages minus their mean, over their standard deviation + epsilon."""
    errors = advantages - masked_mean(advantages, valid)
    deviation = tf.sqrt(masked_mean(tf.square(errors), valid))
    return errors / (deviation + epsilon)


def clipped_policy_loss(
    log_probs: tf.Tensor,
    old_log_probs: tf.Tensor,
    advantages: tf.Tensor,
    clip: float,
    valid: tf.Tensor,
) -> tf.Tensor:
    """Return PPO's policy loss: moving a ratio beyond 1 ± `clip` gains nothing.

    Source: arXiv:1707.06347, eq. 7.
    """
    ratios = tf.exp(log_probs - old_log_probs)
    clipped = tf.clip_by_value(ratios, 1 - clip, 1 + clip)
    gains = tf.minimum(ratios * advantages, clipped * advantages)
    return -masked_mean(gains, valid)


def approximate_kl(
    log_probs: tf.Tensor, old_log_probs: tf.Tensor, valid: tf.Tensor
) -> tf.Tensor:
    """Return an estimate of KL(old ‖ new), in nats, that is nonnegative in every row.

    Source: Schulman, "Approximating KL divergence", 2020, k3.
    """
    log_ratios = log_probs - old_log_probs
    return masked_mean(tf.math.expm1(log_ratios) - log_ratios, valid)


def clip_fraction(
    log_probs: tf.Tensor, old_log_probs: tf.Tensor, clip: float, valid: tf.Tensor
) -> tf.Tensor:
    """Return the fraction of rows with an importance ratio beyond 1 ± `clip`."""
    is_clipped = tf.abs(tf.math.expm1(log_probs - old_log_probs)) > clip
    return masked_mean(tf.cast(is_clipped, tf.float32), valid)


def explained_variance(
    values: tf.Tensor, targets: tf.Tensor, valid: tf.Tensor
) -> tf.Tensor:
    """Return 1 - Var(targets - values) / Var(targets), at most 1.

    It is 0 for values that predict no better than a constant, negative for worse ones,
    and 0 if all targets are equal.
    """

    def variance(x: tf.Tensor) -> tf.Tensor:
        return masked_mean(tf.square(x - masked_mean(x, valid)), valid)

    explained = 1 - variance(targets - values) / variance(targets)
    return tf.where(tf.math.is_finite(explained), explained, 0.0)


def clipped_value_loss(
    values: tf.Tensor,
    old_values: tf.Tensor,
    returns: tf.Tensor,
    clip: float,
    valid: tf.Tensor,
) -> tf.Tensor:
    """Return PPO's value loss: half the larger of two squared errors.

    One is that of `values`, the other that of `values` clipped to within `clip` of
    `old_values`, which were computed during the rollout.

    Source: openai/baselines, ppo2.
    """
    clipped = old_values + tf.clip_by_value(values - old_values, -clip, clip)
    errors = tf.maximum(tf.square(values - returns), tf.square(clipped - returns))
    return 0.5 * masked_mean(errors, valid)


def q_targets(
    rewards: tf.Tensor,
    discounts: tf.Tensor,
    target_values: tf.Tensor,
    selection_values: tf.Tensor,
) -> tf.Tensor:
    """Return the targets of Q-learning, float32 [N].

    Both kinds of values are float32 [N, n], of actions at the next observation. The
    largest selection value selects the action: it is the target network's own, or with
    double Q-learning the online network's. Discounts are 0 after termination.

    Source: doi:10.1038/nature14236; double, arXiv:1509.06461, eq. 4.
    """
    best = tf.argmax(selection_values, axis=1)
    values = tf.gather(target_values, best, batch_dims=1)
    return rewards + discounts * values


def squared(errors: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
    """Return the mean of the squared errors, times weights [N] if given, float32 []."""
    return weighted_mean(tf.square(errors), weights)


def huber(errors: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
    """Return the mean Huber loss, float32 []: ½x² where |x| ≤ 1, else |x| - ½.

    Weights, float32 [N], multiply each sample's loss.
    """
    size = tf.abs(errors)
    small = tf.minimum(size, 1.0)
    return weighted_mean(small * (size - 0.5 * small), weights)


def weighted_mean(x: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """Return the mean of x, or of x times the weights, which aren't normalized."""
    return tf.reduce_mean(x if weights is None else weights * x)


def cross_entropies(probs: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return float32 [N] cross-entropies of float32 [N, n] targets and logits."""
    return tf.nn.softmax_cross_entropy_with_logits(tf.stop_gradient(probs), logits)


def masked_mean(x: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """Return the mean of x over the valid rows; 0 if there are none.

    An x of shape [] is shared by all rows and returned unchanged.
    """
    if x.shape.rank == 0:
        return x
    held = tf.reduce_sum(tf.cast(valid, x.dtype))
    return tf.math.divide_no_nan(tf.reduce_sum(tf.where(valid, x, 0)), held)


def policy_gradient_loss(
    log_probs: tf.Tensor, advantages: tf.Tensor, valid: tf.Tensor
) -> tf.Tensor:
    """Return the loss whose gradient is minus the policy gradient of valid rows.

    No gradient passes through the advantages.

    Source: arXiv:1602.01783, section 4.
    """
    return -masked_mean(log_probs * tf.stop_gradient(advantages), valid)


def surrogate_gain(
    log_probs: tf.Tensor,
    old_log_probs: tf.Tensor,
    advantages: tf.Tensor,
    valid: tf.Tensor,
) -> tf.Tensor:
    """Return the mean advantage, weighted by importance ratios, to be maximized.

    Source: arXiv:1502.05477, eq. 14.
    """
    return masked_mean(tf.exp(log_probs - old_log_probs) * advantages, valid)
