"""The optimizer that a config asks for."""

from typing import Any

import keras
import tensorflow as tf

from xagents_ray.hyperparameters import AlgorithmConfig


def make_optimizer(config: AlgorithmConfig, variables: list[Any]) -> Any:
    """Return Adam with the config's settings, built for these variables."""
    optimizer = keras.optimizers.Adam(
        config.lr, config.beta1, config.beta2, config.opt_epsilon
    )
    optimizer.build(variables)
    return optimizer


def descend(
    optimizer: Any,
    tape: tf.GradientTape,
    loss: tf.Tensor,
    variables: list[Any],
    largest_norm: float | None = None,
) -> tf.Tensor:
    """Take one step down a loss.

    Args:
        optimizer: of `make_optimizer`.
        tape: that watched the loss.
        loss: float32 [].
        variables: to change.
        largest_norm: gradients of a larger global norm are scaled to it.
    Returns:
        float32 [], the gradient's global norm before scaling.
    """
    gradients = tape.gradient(loss, variables)
    norm = tf.linalg.global_norm(gradients)
    if largest_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, largest_norm, use_norm=norm)
    optimizer.apply(gradients, variables)
    return norm
