"""Optimizers, and one gradient step."""

from typing import Any

import keras
import tensorflow as tf

from xagents_ray.settings.algorithm import AlgorithmConfig


def make_optimizer(
    config: AlgorithmConfig, variables: list[Any], lr: float | None = None
) -> Any:
    """Return the optimizer of a config, built for these variables.

    Args:
        config: its settings.
        variables: to change.
        lr: learning rate in place of the config's, for a critic.
    """
    lr = config.lr if lr is None else lr
    if config.optimizer == "rmsprop":
        optimizer = keras.optimizers.RMSprop(
            lr, rho=config.beta2, epsilon=config.opt_epsilon
        )
    else:
        optimizer = keras.optimizers.Adam(
            lr, config.beta1, config.beta2, config.opt_epsilon
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
        tape: that recorded the loss.
        loss: float32 [].
        variables: to change.
        largest_norm: limit of the gradient's global norm, to which it is scaled.
    Returns:
        float32 [], the gradient's global norm before scaling.
    """
    gradients = tape.gradient(loss, variables)
    norm = tf.linalg.global_norm(gradients)
    if largest_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, largest_norm, use_norm=norm)
    optimizer.apply(gradients, variables)
    return norm
