"""Target networks, and the target actions of deterministic policies."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def update_targets(pairs: Sequence[tuple[Any, Any]], tau: float) -> None:
    """Move each target network the fraction tau of its way to another one.

    Args:
        pairs: a target, changed, and the network that it follows.
        tau: more than 0, at most 1.
    Source: arXiv:1509.02971, section 3.
    """
    for target_model, model in pairs:
        for target, variable in zip(target_model.weights, model.weights, strict=True):
            if tau == 1:  # exactly, whatever rounding says of the difference
                target.assign(variable)
            else:
                target.assign_add(tau * (variable - target))


def smooth_target_actions(
    actions: tf.Tensor, normal: tf.Tensor, scale: float, largest: float
) -> tf.Tensor:
    """Return target actions with clipped noise, within -1 to 1.

    Args:
        actions: float32 [N, A].
        normal: float32 [N, A], standard normal.
        scale: standard deviation of the noise.
        largest: limit of the noise's size.
    Returns:
        float32 [N, A].
    Source: arXiv:1802.09477, eq. 14.
    """
    noise = tf.clip_by_value(scale * normal, -largest, largest)
    return tf.clip_by_value(actions + noise, -1.0, 1.0)


def normal_noise(seed: int, update: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Return standard normal noise, the same whenever this update is done.

    Args:
        seed: of the run.
        update: int64 [], how many went before in the whole run.
        shape: int32 [rank].
    Returns:
        float32 of that shape.
    """
    own = tf.stack([tf.constant(seed, tf.int64), update])
    return tf.random.stateless_normal(shape, own)
