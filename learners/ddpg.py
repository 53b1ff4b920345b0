"""Deep deterministic policy gradient."""

import tensorflow as tf

from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.learners.deterministic import action_values, update_actor, with_targets
from xagents_ray.learners.math import losses
from xagents_ray.learners.math.targets import update_targets
from xagents_ray.learners.metrics import Means, add, added, no_means
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, TransitionBatches, at


class DDPG:
    """An actor that climbs its critic; targets follow both.

    Source: arXiv:1509.02971.
    """

    data = TransitionBatches

    def __init__(self, setup: LearnerSetup[DDPGConfig]) -> None:
        self._config, self._setup = setup.config, setup
        self.models, self.targets = with_targets(setup, "actor", "critic")
        (self._actor_target, self._actor), critics = self.targets
        self._critic_target, self._critic = critics
        self._actor_optimizer = make_optimizer(
            setup.config, self._actor.trainable_variables
        )
        self._critic_optimizer = make_optimizer(
            setup.config, self._critic.trainable_variables, setup.config.critic_lr
        )
        self.optimizers = {
            "actor-optimizer": self._actor_optimizer,
            "critic-optimizer": self._critic_optimizer,
        }
        self.variables: dict[str, tf.Variable] = {}

    def learn(
        self, batches: TransitionBatches, phase: Phase
    ) -> tuple[Means, tf.Tensor]:
        """Update all networks on each of K minibatches."""
        critic_metrics = no_means("value_loss", "q_value", "value_grad_norm")
        actor_metrics = no_means("policy_loss", "policy_grad_norm")
        for k in tf.range(tf.shape(batches.rewards)[0]):
            if self._setup.stopping:
                break
            batch = at(batches, k)
            inputs = self._setup.inputs(batch.observations)
            obs, next_obs = inputs[:, 0], inputs[:, -1]
            critic_metrics = add(
                critic_metrics, self._update_critic(batch, obs, next_obs)
            )
            actor_metrics = add(
                actor_metrics,
                update_actor(
                    self._actor,
                    self._critic,
                    self._actor_optimizer,
                    obs,
                    self._config.grad_norm,
                ),
            )
            update_targets(self.targets, self._config.tau)
        updates = added(critic_metrics)
        return {**critic_metrics, **actor_metrics}, updates

    def _update_critic(
        self, batch: TransitionBatches, obs: tf.Tensor, next_obs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Take one gradient step on [N, ...] transitions."""
        c = self._config
        next_values = action_values(
            self._critic_target, next_obs, self._actor_target(next_obs)
        )
        targets = batch.rewards + batch.discounts * next_values
        variables = self._critic.trainable_variables
        with tf.GradientTape() as tape:
            values = action_values(self._critic, obs, batch.actions)
            loss = losses.squared(targets - values)
        norm = descend(self._critic_optimizer, tape, loss, variables, c.grad_norm)
        return {
            "value_loss": loss,
            "q_value": tf.reduce_mean(values),
            "value_grad_norm": norm,
        }
