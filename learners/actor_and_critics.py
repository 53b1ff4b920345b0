"""Shared by DDPG, TD3 and SAC: an actor, and critics of its actions."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.sac import SACConfig
from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners.math import losses
from xagents_ray.learners.metrics import (
    AlgorithmOutputs,
    Means,
    add_metrics,
    no_means,
    update_count,
)
from xagents_ray.learners.minibatches import update_on_batches
from xagents_ray.learners.priorities import (
    Errors,
    importance_weights,
    no_errors,
    with_errors,
)
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, batch_at

PolicyLoss: TypeAlias = tuple[tf.Tensor, Mapping[str, tf.Tensor]]
"""A loss, float32 [], and metrics by name."""


class ActorAndCritics:
    """An actor, one or more critics, their targets, and their optimizers.

    Args:
        setup: setup of the learner; the first network is the actor, the rest critics.
        actor_target: whether the actor has a target network too.
    Attributes:
        actor: network of the policy.
        actor_target: target network of the actor, or the actor itself without one.
        critics: networks of the values of actions.
        critic_targets: target networks of the critics.
    """

    def __init__(
        self,
        setup: LearnerSetup[DDPGConfig | TD3Config | SACConfig],
        actor_target: bool = True,
    ) -> None:
        self._setup, config = setup, setup.config
        more = (f"critic-{i}" for i in range(2, len(setup.layouts)))
        names = "actor", "critic", *more
        pairs: list[tuple[Any, Any]] = []
        for name, layout in zip(names, setup.layouts, strict=True):
            if pairs or actor_target:
                model, target = setup.with_target(layout, name)
            else:
                model = target = setup.network(layout, name)
            pairs.append((target, model))
        (self.actor_target, self.actor), *critics = pairs
        self.critic_targets, self.critics = zip(*critics, strict=True)
        self._critic_variables = [v for _, x in critics for v in x.trainable_variables]
        self._actor_optimizer = setup.optimizer(
            self.actor.trainable_variables, "actor-optimizer"
        )
        self._critic_optimizer = setup.optimizer(
            self._critic_variables, "critic-optimizer", config.critic_lr
        )
        self._grad_norm = config.grad_norm

    def learn(
        self,
        batches: Transitions,
        phase: Phase,
        value_targets: Callable[[Transitions, tf.Tensor], tf.Tensor],
        update_policy: Callable[[tf.Tensor, Means], Means],
        *names: str,
    ) -> AlgorithmOutputs:
        """Update the critics, then the actor and targets, on each of K minibatches.

        Args:
            batches: minibatches, [K, N, ...].
            phase: scalars of the learning phase.
            value_targets: function from a minibatch and its next observations, float32
                [N, D], to the critics' targets, float32 [N].
            update_policy: function of observations [N, D] and the policy's metrics so
                far that updates the actor and the targets if due; returns the metrics
                including those of this update.
            names: names of policy metrics besides the loss and gradient norm.
        """

        def update(
            k: tf.Tensor, so_far: tuple[Means, Means, Errors]
        ) -> tuple[Means, Means, Errors]:
            critic_metrics, policy_metrics, errors = so_far
            batch = batch_at(batches, k)
            inputs = self._setup.inputs(batch.observations)
            obs, next_obs = inputs[:, 0], inputs[:, 1]
            targets = value_targets(batch, next_obs)
            weights = importance_weights(batch, self._setup.config.priority_beta, phase)
            critics, own = self.update_critics(obs, batch.actions, targets, weights)
            critic_metrics = add_metrics(critic_metrics, critics)
            policy_metrics = update_policy(obs, policy_metrics)
            return critic_metrics, policy_metrics, with_errors(errors, k, own)

        start = (
            no_means("value_loss", "q_value", "value_grad_norm"),
            no_means("policy_loss", "policy_grad_norm", *names),
            no_errors(batches),
        )
        ended = update_on_batches(update, start, phase, self._setup)
        critic_metrics, policy_metrics, errors = ended
        metrics = critic_metrics | policy_metrics
        return AlgorithmOutputs(metrics, update_count(critic_metrics), *errors)

    def update_critics(
        self,
        obs: tf.Tensor,
        actions: tf.Tensor,
        targets: tf.Tensor,
        weights: tf.Tensor | None = None,
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Take one gradient step of all critics towards float32 [N] targets.

        The observations are float32 [N, D], the actions [N, A], the weights of samples
        [N]. Return metrics, and each sample's mean absolute error, float32 [N].
        """
        with tf.GradientTape() as tape:
            values = [action_values(critic, obs, actions) for critic in self.critics]
            errors = [targets - x for x in values]
            loss = tf.add_n([losses.squared(x, weights) for x in errors])
        variables, largest = self._critic_variables, self._grad_norm
        norm = self._setup.step(self._critic_optimizer, tape, loss, variables, largest)
        q_value = tf.reduce_mean(values[0])
        metrics = {"value_loss": loss, "q_value": q_value, "value_grad_norm": norm}
        return metrics, tf.add_n([tf.abs(x) for x in errors]) / len(errors)

    def update_actor(
        self, obs: tf.Tensor, loss_of: Callable[[tf.Tensor], PolicyLoss] | None = None
    ) -> dict[str, tf.Tensor]:
        """Take one gradient step of the actor; return metrics.

        `loss_of` returns the loss, float32 [], of observations [N, D], and more
        metrics; without it the actor maximizes the first critic's value.
        """
        loss_of = loss_of or self._negative_value
        variables = self.actor.trainable_variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            # Don't watch the critics: their gradients aren't needed.
            tape.watch([variable.value for variable in variables])
            loss, more = loss_of(obs)
        norm = self._setup.step(
            self._actor_optimizer, tape, loss, variables, self._grad_norm
        )
        return {"policy_loss": loss, "policy_grad_norm": norm, **more}

    def target_values(
        self, next_obs: tf.Tensor, actions: tf.Tensor, update: tf.Tensor
    ) -> tf.Tensor:
        """Return float32 [N], the smaller value of two target critics.

        If there are more than two, each update draws two; `update`, int64 [], is its
        index in the run. A single critic's value is returned unchanged.

        Source: arXiv:2101.05982, algorithm 1.
        """
        critics, count = self.critic_targets, len(self.critic_targets)
        if count <= 2:
            return least_values(critics, next_obs, actions)
        values = [action_values(critic, next_obs, actions) for critic in critics]
        chosen = two_of(count, self._setup.seed, update)
        return tf.reduce_min(tf.gather(tf.stack(values), chosen), axis=0)

    def _negative_value(self, obs: tf.Tensor) -> PolicyLoss:
        """Return the loss of a deterministic policy.

        Source: arXiv:1509.02971, eq. 6.
        """
        values = action_values(self.critics[0], obs, self.actor(obs))
        return -tf.reduce_mean(values), {}


def action_values(critic: Any, obs: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Return the critic's values of actions [N, A] at observations [N, D]: [N]."""
    return critic(tf.concat([obs, actions], axis=1))[:, 0]


def least_values(
    critics: Sequence[Any], obs: tf.Tensor, actions: tf.Tensor
) -> tf.Tensor:
    """Return float32 [N], the smallest of the critics' values of actions [N, A].

    Source: arXiv:1802.09477, section 4.2.
    """
    values = [action_values(critic, obs, actions) for critic in critics]
    return functools.reduce(tf.minimum, values)


def two_of(count: int, seed: int, update: tf.Tensor) -> tf.Tensor:
    """Draw two different indices below `count` for an update, int32 [2].

    `update`, int64 [], is the update's index in the run, `seed` the run's seed.
    """
    own = tf.stack([tf.constant(seed, tf.int64), -1 - update])  # noise uses 0, 1, …
    bits = tf.random.stateless_uniform([count], own, None, None, tf.int32)
    return tf.math.top_k(bits, 2).indices


def smooth_target_actions(
    actions: tf.Tensor, normal: tf.Tensor, scale: float, largest: float
) -> tf.Tensor:
    """Return target actions, float32 [N, A], with clipped noise, within -1 to 1.

    The noise is `normal`, [N, A], times `scale`, clipped to ± `largest`.

    Source: arXiv:1802.09477, eq. 14.
    """
    noise = tf.clip_by_value(scale * normal, -largest, largest)
    return tf.clip_by_value(actions + noise, -1.0, 1.0)
