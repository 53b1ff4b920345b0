"""Objectives from a behavior policy's actions, and ACER's trust region.

`probabilities` are those of all actions under the policy being learned, float32 [N, n];
`epsilon` is added to them, or to other divisors, to keep divisions and logarithms
finite.
"""

import tensorflow as tf

__autograph__ = False


def ratios(
    probabilities: tf.Tensor, behavior_probs: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """Return the importance ratios of all actions, [N, n]; gradients are stopped."""
    return tf.stop_gradient(probabilities) / (behavior_probs + epsilon)


def entropy(probabilities: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Return float32 [N] entropies, in nats."""
    return -tf.reduce_sum(probabilities * tf.math.log(probabilities + epsilon), axis=1)


def kl(probabilities: tf.Tensor, others: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Return float32 [N] divergences KL(probabilities ‖ others), in nats."""
    log_ratios = tf.math.log(probabilities + epsilon) - tf.math.log(others + epsilon)
    return tf.reduce_sum(probabilities * log_ratios, axis=1)


def corrected_gain(
    probabilities: tf.Tensor,
    ratios: tf.Tensor,
    actions: tf.Tensor,
    targets: tf.Tensor,
    q_values: tf.Tensor,
    values: tf.Tensor,
    largest: float,
    epsilon: float,
) -> tf.Tensor:
    """Return the objective, [N], whose gradient is the corrected policy gradient.

    The taken action is weighted by its truncated ratio; what truncation removes is
    restored by an expectation over all actions, with the critic's advantages.
    Gradients pass through the logarithms of the probabilities only.

    `targets` [N] are Retrace targets of the taken actions, int32 [N], `q_values` [N, n]
    the critic's values, `values` [N] their means under the policy being learned, and
    `ratios` [N, n] the importance ratios, truncated at `largest`, the paper's c.

    Source: arXiv:1611.01224, eq. 7 and 9.
    """
    log_probs = tf.math.log(probabilities + epsilon)
    taken, ratio = (
        tf.gather(x, actions, axis=1, batch_dims=1) for x in (log_probs, ratios)
    )
    gain = taken * tf.stop_gradient(tf.minimum(ratio, largest) * (targets - values))
    removed = tf.nn.relu(1.0 - largest / (ratios + epsilon)) * probabilities
    advantages = q_values - values[:, None]
    correction = log_probs * tf.stop_gradient(removed * advantages)
    return gain + tf.reduce_sum(correction, axis=1)


def project(
    gradient: tf.Tensor,
    probabilities: tf.Tensor,
    average: tf.Tensor,
    delta: float,
    epsilon: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the closest gradient that stays within the trust region.

    To first order, it increases KL(average ‖ policy) by at most delta.

    `gradient`, float32 [N, n], is that of each row's gain with respect to its
    probabilities. Also return which rows the bound changes, bool [N].

    Source: arXiv:1611.01224, eq. 12 and 13.
    """
    slope = -average / (probabilities + epsilon)
    excess = tf.reduce_sum(slope * gradient, axis=1) - delta
    size = tf.reduce_sum(tf.square(slope), axis=1)
    scale = tf.math.divide_no_nan(tf.nn.relu(excess), size)
    return gradient - scale[:, None] * slope, excess > 0
