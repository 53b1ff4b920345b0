"""Optimizers, gradient steps, and updates of target networks."""

import json
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from xagents_ray.core.schedule import schedule_of
from xagents_ray.learners.math.shares import ALONE, Shares
from xagents_ray.settings import from_python
from xagents_ray.settings.algorithm import AlgorithmConfig

__autograph__ = False
_LOWEST_LR, _HIGHEST_LR = 1e-5, 1e-2


class FusedAdam(keras.optimizers.Adam):
    """Keras' Adam, in one operation per variable, without temporary tensors.

    Constraints of a user's Keras model are applied, as Keras does. AMSGrad, weight
    decay and Keras' clipping are not supported.

    Source: arXiv:1412.6980, the form at the end of section 2.
    """

    def apply(self, gradients: list[tf.Tensor], variables: list[Any]) -> None:
        """Take one step of all variables that it was built for, in the same order."""
        self.iterations.assign_add(1)
        step = tf.cast(self.iterations.value, tf.float32)
        beta1, beta2 = tf.constant(self.beta_1), tf.constant(self.beta_2)
        lr, epsilon = self.learning_rate.value, self.epsilon
        power1, power2 = tf.pow(beta1, step), tf.pow(beta2, step)
        for gradient, variable, momentum, velocity in zip(
            gradients, variables, self._momentums, self._velocities, strict=True
        ):
            tf.raw_ops.ResourceApplyAdam(
                var=_handle(variable),
                m=_handle(momentum),
                v=_handle(velocity),
                beta1_power=power1,
                beta2_power=power2,
                lr=lr,
                beta1=beta1,
                beta2=beta2,
                epsilon=epsilon,
                grad=tf.convert_to_tensor(gradient),  # an embedding's is sparse
            )
        for variable in constrained_variables(variables):
            variable.assign(variable.constraint(variable))


def _handle(variable: Any) -> tf.Tensor:
    """Return the resource handle of a Keras or TensorFlow variable."""
    held = variable if isinstance(variable, tf.Variable) else variable.value
    return held.handle


def make_optimizer(
    config: AlgorithmConfig, variables: list[Any], lr: float | None = None
) -> Any:
    """Return the optimizer of a config, built for the variables that it will change.

    `lr` replaces the config's learning rate and its schedule, for a critic.
    """
    if from_python.is_json(config.optimizer):
        own = keras.optimizers.deserialize(json.loads(config.optimizer))
        if lr is not None:
            own.learning_rate.assign(lr)
        own.build(variables)
        return own
    lr = schedule_of(config.lr).at(0) if lr is None else lr
    epsilon = config.opt_epsilon
    if config.optimizer == "rmsprop":
        optimizer = keras.optimizers.RMSprop(lr, rho=config.beta2, epsilon=epsilon)
    else:
        optimizer = FusedAdam(lr, config.beta1, config.beta2, epsilon)
    optimizer.build(variables)
    return optimizer


def gradient_step(
    optimizer: Any,
    tape: tf.GradientTape,
    loss: tf.Tensor,
    variables: list[Any],
    largest_norm: float | None = None,
    shares: Shares = ALONE,
) -> tf.Tensor:
    """Take one gradient step on a loss that the tape recorded.

    Gradients are summed over the learners that share the work, and those of a user's
    Keras regularizers are added. Return the global norm of the gradient before it is
    clipped to `largest_norm`, float32 [].
    """
    gradients = shares.summed(tape.gradient(loss, variables), variables)
    with tf.GradientTape() as own_tape:
        penalty = regularization_loss(variables)
    if penalty is not None:
        added = own_tape.gradient(penalty, variables, unconnected_gradients="zero")
        gradients = [tf.add(*pair) for pair in zip(gradients, added, strict=True)]
    norm = tf.linalg.global_norm(gradients)
    if largest_norm is not None:
        gradients, _ = tf.clip_by_global_norm(gradients, largest_norm, use_norm=norm)
    optimizer.apply(gradients, variables)
    return norm


def adapt_lr(rate: Any, divergence: tf.Tensor, desired: float) -> None:
    """Divide a learning rate's variable by 1.5, or multiply it, or leave it as it is.

    Args:
        rate: variable of the learning rate; it stays from 1e-5 to 1e-2.
        divergence: KL divergence of the policy from the one before the updates,
            float32 [].
        desired: divides if it is above twice this, and multiplies if below half.
    Source: arXiv:2109.11978, section 3.
    """
    factor = tf.where(divergence > 2 * desired, 1 / 1.5, 1.0)
    factor = tf.where(divergence < desired / 2, 1.5, factor)
    rate.assign(tf.clip_by_value(rate.value * factor, _LOWEST_LR, _HIGHEST_LR))


def regularization_loss(variables: Sequence[Any]) -> tf.Tensor | None:
    """Return the loss of the variables' Keras regularizers, float32 [], or None.

    Only a user's model has such regularizers.
    """
    regularizers = [(getattr(v, "regularizer", None), v) for v in variables]
    parts = [penalty(v) for penalty, v in regularizers if penalty is not None]
    return tf.add_n(parts) if parts else None


def constrained_variables(variables: Sequence[Any]) -> list[Any]:
    """Return the variables with Keras constraints; only a user's model has any."""
    return [v for v in variables if getattr(v, "constraint", None) is not None]


def update_targets(pairs: Sequence[tuple[Any, Any]], tau: float) -> None:
    """Move each target network by the fraction tau towards the network it follows.

    Args:
        pairs: target networks, each with the network that it follows.
        tau: fraction, more than 0 and at most 1.
    Source: arXiv:1509.02971, section 3.
    """
    for target_model, model in pairs:
        for target, variable in zip(target_model.weights, model.weights, strict=True):
            if tau == 1:  # copy exactly, without rounding
                target.assign(variable)
            else:
                # target - tau * (target - variable) in one operation
                tf.raw_ops.ResourceApplyGradientDescent(
                    var=_handle(target), alpha=tau, delta=tf.subtract(target, variable)
                )
