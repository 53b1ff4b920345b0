"""What deterministic policy gradients share: targets, averages and noise."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from xagents_ray.core.spec import EnvSpec
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout


def signature(spec: EnvSpec) -> list[tf.TensorSpec]:
    """Return that of observations, actions, rewards, terminated: [K, N, ...]."""
    rows = [None, None]
    return [
        tf.TensorSpec([*rows, 2, *spec.observation_shape], spec.observation_dtype),
        tf.TensorSpec([*rows, spec.action_units], tf.float32),
        tf.TensorSpec(rows, tf.float32),
        tf.TensorSpec(rows, tf.bool),
    ]


def with_target(layout: Layout, seed: int, name: str) -> tuple[Any, Any]:
    """Return a network and its target, another one of the same weights."""
    model, target = (networks.build(layout, seed, x) for x in (name, f"{name}-target"))
    target.set_weights(model.get_weights())
    return model, target


def polyak(targets: Sequence[Any], variables: Sequence[Any], tau: float) -> None:
    """Move each target the fraction tau of its way to a variable.

    Args:
        targets: variables, changed.
        variables: of the same shapes.
        tau: more than 0, at most 1.
    Source: arXiv:1509.02971, section 3.
    """
    for target, variable in zip(targets, variables, strict=True):
        if tau == 1:  # exactly, whatever rounding says of the difference
            target.assign(variable)
        else:
            target.assign_add(tau * (variable - target))


def smoothed(
    actions: tf.Tensor, normal: tf.Tensor, scale: float, largest: float
) -> tf.Tensor:
    """Return target actions with clipped noise, within -1 to 1.

    Args:
        actions: float32 [N, A].
        normal: float32 [N, A], standard normal.
        scale: standard deviation of the noise.
        largest: size of the noise that is not exceeded.
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


def judge(critic: Any, observations: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Return float32 [N], the critic's values of actions [N, A] on [N, D]."""
    return critic(tf.concat([observations, actions], axis=-1))[:, 0]
