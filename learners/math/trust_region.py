"""Natural gradient steps within a trust region, as functions of flat parameters.

Parameters and other vectors are float [P]. `product` multiplies a vector by a symmetric
positive semidefinite matrix H.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from xagents_ray.learners.math.flat import concat_flat
from xagents_ray.learners.math.shares import ALONE, Shares


def fisher_vector_product(
    divergence: Callable[[], tf.Tensor],
    variables: Sequence[Any],
    vector: tf.Tensor,
    damping: float,
    shares: Shares = ALONE,
) -> tf.Tensor:
    """Return the Hessian of a divergence times a vector, plus damping times the vector.

    The divergence, float [], is from fixed distributions to those of the variables,
    which have P elements. Where it is 0, its Hessian is the Fisher matrix. It is a mean
    over rows, each of which one of the learners has computed that share the work.

    Source: arXiv:1502.05477, appendix C.1.
    """
    zero = tf.UnconnectedGradients.ZERO
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            value = divergence()
        gradient = inner.gradient(value, variables, unconnected_gradients=zero)
        own = shares.parts(gradient, variables)
        along = tf.reduce_sum(concat_flat(own) * vector)
    product = outer.gradient(along, variables, unconnected_gradients=zero)
    return shares.total(concat_flat(product)) + damping * vector


def conjugate_gradient(
    product: Callable[[tf.Tensor], tf.Tensor],
    target: tf.Tensor,
    iterations: int,
    tolerance: float,
) -> tf.Tensor:
    """Return an approximate solution x of H x = target.

    It stops when the squared norm of target - H x is at most `tolerance`, or after
    `iterations`; P of them give the exact solution up to rounding.

    Source: Hestenes and Stiefel, 1952; arXiv:1502.05477, appendix C.
    """

    # With other branches, XLA would fuse other operations and round differently.
    def improve(i: tf.Tensor, *state: tf.Tensor) -> tuple[tf.Tensor, ...]:
        x, residual, direction, size, _ = state

        def ended() -> tuple[tf.Tensor, ...]:
            return *state[:-1], tf.constant(False)

        def next_state() -> tuple[tf.Tensor, ...]:
            image = product(direction)
            curvature = _dot(direction, image)

            def moved() -> tuple[tf.Tensor, ...]:
                length = size / curvature
                rest = residual - length * image
                new_size = _dot(rest, rest)
                along = rest + new_size / size * direction
                return x + length * direction, rest, along, new_size, tf.constant(True)

            # Not positive only by rounding, after convergence.
            return tf.cond(curvature <= 0, ended, moved)

        return i + 1, *tf.cond(size <= tolerance, ended, next_state)

    zeros, size = tf.zeros_like(target), _dot(target, target)
    start = tf.constant(0), zeros, target, target, size, tf.constant(True)
    _, x, *_ = tf.while_loop(
        lambda i, *state: (i < iterations) & state[-1], improve, start
    )
    return x


def natural_step(
    product: Callable[[tf.Tensor], tf.Tensor],
    gradient: tf.Tensor,
    max_kl: float,
    iterations: int,
    tolerance: float,
) -> tf.Tensor:
    """Return the step along H⁻¹ g whose divergence ½ sᵀ H s is `max_kl`.

    It is zero if g, the gradient of the objective to maximize, is zero.

    Source: arXiv:1502.05477, appendix C.
    """
    x = conjugate_gradient(product, gradient, iterations, tolerance)
    half = 0.5 * _dot(x, product(x))
    return x * tf.math.sqrt(tf.math.divide_no_nan(max_kl, tf.maximum(half, 0.0)))


def line_search(
    evaluate: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    start: tf.Tensor,
    step: tf.Tensor,
    gain: tf.Tensor,
    max_kl: float,
    tries: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the first point along a step that improves the gain within the region.

    Args:
        evaluate: function from parameters [P] to gain and divergence, float [] each.
        start: parameters before the step, [P].
        step: the full step, [P]; it is tried first, then a half, a quarter, ….
        gain: gain at the start, float []; an accepted point has a larger one.
        max_kl: target divergence; an accepted point has at most 1.5 times as much.
        tries: maximum number of points to try.
    Returns:
        Parameters, and the fraction of the step that was taken, float []; the start and
        0 if no point was accepted.
    Source: arXiv:1502.05477, appendix C; 1.5 from openai/baselines, trpo_mpi.
    """

    def try_part(
        i: tf.Tensor, part: tf.Tensor, taken: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        reached, kl = evaluate(start + part * step)
        # Comparisons with NaN are false.
        fits = tf.math.is_finite(reached) & (reached > gain) & (kl <= 1.5 * max_kl)
        return i + 1, 0.5 * part, tf.where(fits, part, taken)

    whole, none = tf.ones([], start.dtype), tf.zeros([], start.dtype)
    _, _, taken = tf.while_loop(
        lambda i, _, taken: (i < tries) & (taken == 0),
        try_part,
        (tf.constant(0), whole, none),
    )
    # Don't multiply by 0: a step that isn't finite would leave NaN.
    return tf.where(taken > 0, start + taken * step, start), taken


def _dot(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x * y)
