"""Returns and advantages as pure functions of tensors, time-major float32 [T, B].

Their arguments, unless stated otherwise:
    rewards: float32 [T, B].
    values: float32 [T + 1, B], of each row's observation and of the one after the last.
    terminated: bool [T, B].
    truncated: bool [T, B].
    gamma: discount factor.

A truncated step, like the last row, is bootstrapped from the next row's value, which is
that of the final observation; a terminated step is not bootstrapped.
"""

import tensorflow as tf

__autograph__ = False


def linear_recurrence(increments: tf.Tensor, decays: tf.Tensor) -> tf.Tensor:
    """Solve x[t] = increments[t] + decays[t] * x[t + 1] backwards, x[T] = 0.

    Each iteration doubles the span that a row sums, so T rows take log2(T) iterations.

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
    """Return generalized advantage estimates; lam 0 has high bias, 1 high variance.

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
    """Return n-step returns: discounted rewards up to the rollout's end, then a value.

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

    `log_ratios`, float32 [T, B], are log-probabilities of the actions under the policy
    being learned minus those under the behavior policy. `largest_rho` bounds the ratios
    that weight errors (the fixed point's bias) and advantages, `largest_c` those that
    propagate later errors (the variance); `decay`, GAE's lambda, scales the latter.

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

    `ratios`, float32 [T, B], are the importance ratios of these actions to the behavior
    policy, `taken`, float32 [T, B], the critic's values of them, and `values` the means
    of the critic's values under the policy being learned.

    Source: arXiv:1606.02647, section 3; as a recurrence, arXiv:1611.01224, eq. 5.
    """
    discounts = gamma * tf.cast(~terminated, rewards.dtype)
    weights = tf.minimum(ratios, 1.0)
    continues = tf.cast(~(terminated | truncated), rewards.dtype)
    # The next row's weight; 0 across the end of an episode or of the rollout.
    passed = continues * _next(weights)
    bootstraps = discounts * (values[1:] - passed * _next(taken))
    return linear_recurrence(rewards + bootstraps, discounts * passed)


def _next(x: tf.Tensor) -> tf.Tensor:
    """Return each row's next row; zeros for the last."""
    return tf.concat([x[1:], tf.zeros_like(x[-1:])], axis=0)


def n_step_sums(
    rewards: tf.Tensor,
    terminated: tf.Tensor,
    valid: tf.Tensor,
    gamma: float,
    n_step: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return what n-step targets of a sequence's steps consist of.

    A target sums the rewards of n steps, fewer at the end of an episode or of the
    sequence, and adds the discounted value of the observation that follows them.

    Args:
        rewards: float32 [T, B].
        terminated: bool [T, B].
        valid: bool [T, B], False for steps that only reset.
        gamma: discount factor.
        n_step: largest number of steps; at most T.
    Returns:
        Sums of rewards, float32 [T, B]; discounts of the values, float32 [T, B]; and
        the numbers of steps, int32 [T, B], which are 0 where a step isn't valid.
    """
    sums, powers = tf.zeros_like(rewards), tf.ones_like(rewards)
    steps, is_over = tf.zeros_like(rewards, tf.int32), tf.zeros_like(valid)
    continues = valid
    for k in range(n_step):
        reward, ends, held = (
            tf.pad(x[k:], [[0, k], [0, 0]]) for x in (rewards, terminated, valid)
        )
        continues &= held & ~is_over
        sums += tf.where(continues, powers * reward, 0.0)
        powers = tf.where(continues, gamma * powers, powers)
        steps += tf.cast(continues, tf.int32)
        is_over |= continues & ends
    return sums, tf.where(is_over, 0.0, powers), steps
