"""What algorithms with a deterministic actor share."""

from typing import Any

import tensorflow as tf

from xagents_ray.learners.optimizer import descend
from xagents_ray.learners.setup import LearnerSetup, with_target


def with_targets(
    setup: LearnerSetup[Any], *names: str
) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """Return all networks by name, and each target with the network it follows."""
    models: dict[str, Any] = {}
    targets = []
    for name, layout in zip(names, setup.layouts, strict=True):
        model, target = with_target(layout, setup.seed, name)
        models |= {name: model, f"{name}-target": target}
        targets.append((target, model))
    return models, targets


def action_values(critic: Any, obs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Return float32 [N], the critic's values of actions [N, A] on [N, D]."""
    return critic(tf.concat([obs, actions], axis=-1))[:, 0]


def update_actor(
    actor: Any, critic: Any, optimizer: Any, obs: tf.Tensor, grad_norm: float | None
) -> dict[str, tf.Tensor]:
    """Take one gradient step of the actor up its critic; return metrics.

    Args:
        actor: network, changed.
        critic: network of observations and actions.
        optimizer: of the actor.
        obs: float32 [N, D].
        grad_norm: limit of the gradient's norm, or None.
    Source: arXiv:1509.02971, eq. 6.
    """
    variables = actor.trainable_variables
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        # Not the critic's: their gradient isn't needed.
        tape.watch([variable.value for variable in variables])
        loss = -tf.reduce_mean(action_values(critic, obs, actor(obs)))
    norm = descend(optimizer, tape, loss, variables, grad_norm)
    return {"policy_loss": loss, "policy_grad_norm": norm}
