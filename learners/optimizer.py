"""Optimizers, a gradient step, and a step of target networks."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from xagents_ray.settings.algorithm import AlgorithmConfig


def make_optimizer(
    config: AlgorithmConfig, variables: list[Any], lr: float | None = None
) -> Any:
    """Return the optimizer of a config, built for the variables that it will change.

    A critic may have another learning rate than the config's.
    """
    lr, epsilon = config.lr if lr is None else lr, config.opt_epsilon
    if config.optimizer == "rmsprop":
        optimizer = keras.optimizers.RMSprop(lr, rho=config.beta2, epsilon=epsilon)
    else:
        optimizer = keras.optimizers.Adam(lr, config.beta1, config.beta2, epsilon)
    optimizer.build(variables)
    return optimizer


def descend(
    optimizer: Any,
    tape: tf.GradientTape,
    loss: tf.Tensor,
    variables: list[Any],
    largest_norm: float | None = None,
) -> tf.Tensor:
    """Take one step of variables down a loss, which the tape recorded.

    Return the float32 [] global norm of the gradient, before it is scaled to one of
    `largest_norm` at most.
    """
    gradients = tape.gradient(loss, variables)
    norm = tf.linalg.global_norm(gradients)
    if largest_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, largest_norm, use_norm=norm)
    optimizer.apply(gradients, variables)
    return norm


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
