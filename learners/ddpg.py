"""Deep deterministic policy gradient."""

import tensorflow as tf

from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.learners.deterministic import ActorAndCritics, action_values
from xagents_ray.learners.metrics import Means, add, added, no_means
from xagents_ray.learners.minibatches import update_on_batches
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

        def update(k: tf.Tensor, metrics: tuple[Means, Means]) -> tuple[Means, Means]:
            critic_metrics, actor_metrics = metrics
            batch = at(batches, k)
            inputs = self._setup.inputs(batch.observations)
            obs, next_obs = inputs[:, 0], inputs[:, -1]
            targets = self._value_targets(batch, next_obs)
            critics = self._networks.update_critics(obs, batch.actions, targets)
            critic_metrics = add(critic_metrics, critics)
            actor_metrics = add(actor_metrics, self._networks.update_actor(obs))
            update_targets(self.targets, self._config.tau)
            return critic_metrics, actor_metrics

        critic_metrics = no_means("value_loss", "q_value", "value_grad_norm")
        actor_metrics = no_means("policy_loss", "policy_grad_norm")
        metrics = critic_metrics, actor_metrics
        critic_metrics, actor_metrics = update_on_batches(
            update, metrics, phase, self._setup
        )
        return {**critic_metrics, **actor_metrics}, added(critic_metrics)

    def _value_targets(
        self, batch: TransitionBatches, next_obs: tf.Tensor
    ) -> tf.Tensor:
        actions = self._networks.actor_target(next_obs)
        (critic,) = self._networks.critic_targets
        next_values = action_values(critic, next_obs, actions)
        return batch.rewards + batch.discounts * next_values
