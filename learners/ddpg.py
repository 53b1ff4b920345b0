"""Deep deterministic policy gradient."""

import tensorflow as tf

from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.learners.deterministic import ActorAndCritics, action_values
from xagents_ray.learners.metrics import Means, add, added, no_means
from xagents_ray.learners.optimizer import update_targets
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, TransitionBatches, at


class DDPG:
    """An actor that climbs its critic; targets follow both.

    Source: arXiv:1509.02971.
    """

    data = TransitionBatches

    def __init__(self, setup: LearnerSetup[DDPGConfig]) -> None:
        self._config, self._setup = setup.config, setup
        self._networks = networks = ActorAndCritics(setup, "actor", "critic")
        self.models, self.targets = networks.models, networks.targets
        self.optimizers = networks.optimizers
        self.variables: dict[str, tf.Variable] = {}

    def learn(
        self, batches: TransitionBatches, phase: Phase
    ) -> tuple[Means, tf.Tensor]:
        """Update all networks on each of K minibatches."""
        critic_metrics = no_means("value_loss", "q_value", "value_grad_norm")
        actor_metrics = no_means("policy_loss", "policy_grad_norm")
        k = tf.constant(0)
        # With `tf.range` XLA would compile a program for each number of batches.
        while k < phase.batches and not self._setup.stopping:
            batch = at(batches, k)
            inputs = self._setup.inputs(batch.observations)
            obs, next_obs = inputs[:, 0], inputs[:, -1]
            targets = self._value_targets(batch, next_obs)
            update = self._networks.update_critics(obs, batch.actions, targets)
            critic_metrics = add(critic_metrics, update)
            actor_metrics = add(actor_metrics, self._networks.update_actor(obs))
            update_targets(self.targets, self._config.tau)
            k += 1
        return {**critic_metrics, **actor_metrics}, added(critic_metrics)

    def _value_targets(
        self, batch: TransitionBatches, next_obs: tf.Tensor
    ) -> tf.Tensor:
        actions = self._networks.actor_target(next_obs)
        (critic,) = self._networks.critic_targets
        next_values = action_values(critic, next_obs, actions)
        return batch.rewards + batch.discounts * next_values
