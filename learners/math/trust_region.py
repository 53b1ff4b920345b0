"""Natural gradient steps within a trust region, as functions of flat parameters.

These and other vectors are float [P]. `product` returns a symmetric matrix H, without
negative curvature, times a vector.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def concat_flat(tensors: Sequence[Any]) -> tf.Tensor:
    """Return tensors or variables concatenated, [P]."""
    return tf.concat([tf.reshape(x, [-1]) for x in tensors], axis=0)


def assign_flat(variables: Sequence[Any], flat: tf.Tensor) -> None:
    """Assign the values that `concat_flat` concatenated, [P]."""
    parts = tf.split(flat, [math.prod(tuple(x.shape)) for x in variables])
    for variable, part in zip(variables, parts, strict=True):
        variable.assign(tf.reshape(part, variable.shape))


def fisher_vector_product(
    divergence: Callable[[], tf.Tensor],
    variables: Sequence[Any],
    vector: tf.Tensor,
    damping: float,
) -> tf.Tensor:
    """Return the second derivative of a divergence times a vector, plus damping of it.

    The divergence, float [], is from fixed distributions to those that the variables
    give, P numbers in total. Where it is 0, that derivative is the Fisher matrix.

    Source: arXiv:1502.05477, appendix C.1.
    """
    zero = tf.UnconnectedGradients.ZERO
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            value = divergence()
        gradient = inner.gradient(value, variables, unconnected_gradients=zero)
        along = tf.reduce_sum(concat_flat(gradient) * vector)
    product = outer.gradient(along, variables, unconnected_gradients=zero)
    return concat_flat(product) + damping * vector


def conjugate_gradient(
    product: Callable[[tf.Tensor], tf.Tensor],
    target: tf.Tensor,
    iterations: int,
    tolerance: float,
) -> tf.Tensor:
    """Return x with H x = target, approximately.

    It stops when the squared norm of target - H x is at most `tolerance`, or after some
    iterations; P of them give the exact solution but for rounding.

    Source: Hestenes and Stiefel, 1952; arXiv:1502.05477, appendix C.
    """
    x, residual, direction = tf.zeros_like(target), target, target
    size = _dot(residual, residual)
    for _ in tf.range(iterations):
        if size <= tolerance:
            break
        image = product(direction)
        curvature = _dot(direction, image)
        if curvature <= 0:  # by rounding only: it has converged
            break
        length = size / curvature
        x += length * direction
        residual -= length * image
        before, size = size, _dot(residual, residual)
        direction = residual + size / before * direction
    return x


def natural_step(
    product: Callable[[tf.Tensor], tf.Tensor],
    gradient: tf.Tensor,
    max_kl: float,
    iterations: int,
    tolerance: float,
) -> tf.Tensor:
    """Return the step along H⁻¹ g whose divergence ½ sᵀ H s is `max_kl`.

    It is zeros where the gradient g, of the objective to maximize, is zero.

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
        evaluate: gain and divergence, float [] each, of parameters [P].
        start: parameters before the step, [P].
        step: the whole is tried first, then a half, a quarter, ….
        gain: float [], at the start; an accepted point's is larger.
        max_kl: target divergence; an accepted point has at most 1.5 times it.
        tries: limit of the points that are tried.
    Returns:
        Parameters, and float [] the fraction of the step that was taken; the start and
        0 if no point was accepted.
    Source: arXiv:1502.05477, appendix C; 1.5 from openai/baselines, trpo_mpi.
    """
    taken = tf.zeros([], start.dtype)
    part = tf.ones([], start.dtype)
    for _ in tf.range(tries):
        reached, kl = evaluate(start + part * step)
        # Comparisons with NaN are false.
        fits = tf.math.is_finite(reached) & (reached > gain) & (kl <= 1.5 * max_kl)
        if fits:
            taken = part
            break
        part *= 0.5
    # Don't multiply by 0: a step that isn't finite would leave NaN.
    return tf.where(taken > 0, start + taken * step, start), taken


def _dot(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(x * y)
