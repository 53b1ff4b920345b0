"""Returns and advantages as pure functions of tensors, time-major float32 [T, B].

All take the same facts of a rollout:
    rewards: float32 [T, B].
    values: float32 [T + 1, B], of each row's observation and the one after.
    terminated: bool [T, B].
    truncated: bool [T, B].
    gamma: discount factor.

After a truncated step, as after the last row, the next row's value, which is the final
observation's, stands for the rest of the episode; after a terminated one there is none.
"""

import tensorflow as tf

__autograph__ = False


def linear_recurrence(increments: tf.Tensor, decays: tf.Tensor) -> tf.Tensor:
    """Solve x[t] = increments[t] + decays[t] * x[t + 1] backwards, x[T] = 0.

    It doubles the span that each row has summed, so T rows take log2(T) steps.

    Source: Blelloch, "Prefix sums and their applications", 1990.
    """
    increments.shape.assert_is_compatible_with(decays.shape)
    length = tf.shape(increments)[0]
    rows = tf.range(length)[:, None]

    def later(x: tf.Tensor, span: tf.Tensor) -> tf.Tensor:
        return tf.where(rows < length - span, tf.roll(x, -span, axis=0), 0.0)

    def double(
        span: tf.Tensor, x: tf.Tensor, decay: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return 2 * span, x + decay * later(x, span), decay * later(decay, span)

    _, x, _ = tf.while_loop(
        lambda span, *_: span < length,
        double,
        (tf.constant(1), increments, decays),
        shape_invariants=(tf.TensorShape([]), increments.shape, decays.shape),
    )
    return x


def gae(
    rewards: tf.Tensor,
    values: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
    gamma: float,
    lam: float,
) -> tf.Tensor:
    """Return generalized advantage estimates; lam 0 is biased, 1 has much variance.

    Source: arXiv:1506.02438, eq. 16.
    """
    discounts = gamma * tf.cast(~terminated, tf.float32)
    continues = tf.cast(~(terminated | truncated), tf.float32)
    errors = rewards + discounts * values[1:] - values[:-1]
    return linear_recurrence(errors, gamma * lam * continues)


def n_step_returns(
    rewards: tf.Tensor,
    values: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
    gamma: float,
) -> tf.Tensor:
    """Return discounted rewards up to the rollout's end, then a value.

    Source: arXiv:1602.01783, algorithm S3.
    """
    continues = ~(terminated | truncated)
    last = tf.ones_like(continues[-1:])
    ends = tf.concat([~continues[:-1], last], axis=0) & ~terminated
    bootstraps = gamma * tf.where(ends, values[1:], 0.0)
    return linear_recurrence(
        rewards + bootstraps, gamma * tf.cast(continues, tf.float32)
    )


def vtrace(
    log_ratios: tf.Tensor,
    rewards: tf.Tensor,
    values: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
    gamma: float,
    largest_rho: float = 1.0,
    largest_c: float = 1.0,
    decay: float = 1.0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return V-trace targets and advantages; with ratios of 1, those of GAE.

    The log-ratios, float32 [T, B], are of the actions' probabilities under the learning
    policy to those under the behavior policy. `largest_rho` limits the ratios that
    weight errors (the fixed point's bias) and advantages, `largest_c` those that pass
    later errors back (the variance); `decay`, the lambda of GAE, scales the latter.

    Source: arXiv:1802.01561, eq. 1, section 4.2 and remark 2.
    """
    ratios = tf.exp(log_ratios)
    rho, c = tf.minimum(ratios, largest_rho), tf.minimum(ratios, largest_c)
    discounts = gamma * tf.cast(~terminated, tf.float32)
    continues = tf.cast(~(terminated | truncated), tf.float32)
    errors = rho * (rewards + discounts * values[1:] - values[:-1])
    corrections = linear_recurrence(errors, gamma * decay * c * continues)
    bootstraps = discounts * (values[1:] + decay * continues * _next(corrections))
    return values[:-1] + corrections, rho * (rewards + bootstraps - values[:-1])


def retrace(
    ratios: tf.Tensor,
    rewards: tf.Tensor,
    taken: tf.Tensor,
    values: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
    gamma: float,
) -> tf.Tensor:
    """Return Retrace targets of the taken actions' values, with lambda 1.

    The ratios, float32 [T, B], are of these actions' probability under the policy that
    learns to that under the one that acted; `taken`, float32 [T, B], are the critic's
    values of them, and `values` the learning policy's.

    Source: arXiv:1606.02647, section 3; as a recurrence, arXiv:1611.01224, eq. 5.
    """
    discounts = gamma * tf.cast(~terminated, rewards.dtype)
    weights = tf.minimum(ratios, 1.0)
    continues = tf.cast(~(terminated | truncated), rewards.dtype)
    # The next row's weight; none across an episode's or the rollout's end.
    passed = continues * _next(weights)
    bootstraps = discounts * (values[1:] - passed * _next(taken))
    return linear_recurrence(rewards + bootstraps, discounts * passed)


def _next(x: tf.Tensor) -> tf.Tensor:
    """Return each row's next row; zeros for the last."""
    return tf.concat([x[1:], tf.zeros_like(x[-1:])], axis=0)
