"""Twin delayed deep deterministic policy gradient."""

import tensorflow as tf

from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.learners.deterministic import action_values, update_actor, with_targets
from xagents_ray.learners.math import losses
from xagents_ray.learners.math.targets import (
    normal_noise,
    smooth_target_actions,
    update_targets,
)
from xagents_ray.learners.metrics import Means, add, added, no_means
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.state import counter
from xagents_ray.learners.tensors import Phase, TransitionBatches, at


class TD3:
    """DDPG with the smaller of two critics, smooth targets and a delayed actor.

    Source: arXiv:1802.09477.
    """

    data = TransitionBatches

    def __init__(self, setup: LearnerSetup[TD3Config]) -> None:
        self._config, self._setup = setup.config, setup
        self.models, self.targets = with_targets(setup, "actor", "critic", "critic-2")
        (self._actor_target, self._actor), *critics = self.targets
        self._critic_targets, self._critics = zip(*critics, strict=True)
        self._actor_optimizer = make_optimizer(
            setup.config, self._actor.trainable_variables
        )
        self._critic_variables = [
            variable
            for critic in self._critics
            for variable in critic.trainable_variables
        ]
        self._critic_optimizer = make_optimizer(
            setup.config, self._critic_variables, setup.config.critic_lr
        )
        self.optimizers = {
            "actor-optimizer": self._actor_optimizer,
            "critic-optimizer": self._critic_optimizer,
        }
        self._updates = counter()
        self.variables = {"count/updates": self._updates}

    def learn(
        self, batches: TransitionBatches, phase: Phase
    ) -> tuple[Means, tf.Tensor]:
        """Update the critics on each of K minibatches, and the actor on some."""
        c = self._config
        critic_metrics = no_means("value_loss", "q_value", "value_grad_norm")
        actor_metrics = no_means("policy_loss", "policy_grad_norm")
        for k in tf.range(tf.shape(batches.rewards)[0]):
            if self._setup.stopping:
                break
            batch = at(batches, k)
            inputs = self._setup.inputs(batch.observations)
            obs, next_obs = inputs[:, 0], inputs[:, -1]
            targets = self._value_targets(batch, next_obs)
            critic_metrics = add(
                critic_metrics, self._update_critics(obs, batch.actions, targets)
            )
            self._updates.assign_add(1)
            if self._updates % c.policy_delay == 0:
                actor, critic = self._actor, self._critics[0]
                update = update_actor(
                    actor, critic, self._actor_optimizer, obs, c.grad_norm
                )
                actor_metrics = add(actor_metrics, update)
                update_targets(self.targets, c.tau)
        updates = added(critic_metrics)
        return {**critic_metrics, **actor_metrics}, updates

    def _value_targets(
        self, batch: TransitionBatches, next_obs: tf.Tensor
    ) -> tf.Tensor:
        """Return the value targets of both critics, float32 [N]."""
        c = self._config
        noise = normal_noise(self._setup.seed, self._updates, tf.shape(batch.actions))
        actions = smooth_target_actions(
            self._actor_target(next_obs), noise, c.policy_noise_coef, c.noise_clip
        )
        one, other = (
            action_values(critic, next_obs, actions) for critic in self._critic_targets
        )
        return batch.rewards + batch.discounts * tf.minimum(one, other)

    def _update_critics(
        self, obs: tf.Tensor, actions: tf.Tensor, targets: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Take one gradient step on [N, ...] transitions."""
        with tf.GradientTape() as tape:
            one, other = (
                action_values(critic, obs, actions) for critic in self._critics
            )
            loss = losses.squared(targets - one) + losses.squared(targets - other)
        norm = descend(
            self._critic_optimizer,
            tape,
            loss,
            self._critic_variables,
            self._config.grad_norm,
        )
        return {
            "value_loss": loss,
            "q_value": tf.reduce_mean(one),
            "value_grad_norm": norm,
        }
