"""Deep deterministic policy gradient."""

import tensorflow as tf

from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners.actor_and_critics import ActorAndCritics, action_values
from xagents_ray.learners.metrics import AlgorithmOutputs, Means, add_metrics
from xagents_ray.learners.optimizer import update_targets
from xagents_ray.learners.priorities import sampled_batches
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase


class DDPG:
    """An actor that maximizes its critic's value; target networks follow both.

    Source: arXiv:1509.02971.
    """

    def __init__(self, setup: LearnerSetup[DDPGConfig]) -> None:
        self._config, self._setup = setup.config, setup
        self.data = sampled_batches(setup.config)
        self._networks = ActorAndCritics(setup)

    def learn(self, batches: Transitions, phase: Phase) -> AlgorithmOutputs:
        """Update all networks on each of K minibatches."""
        return self._networks.learn(
            batches, phase, self._value_targets, self._update_policy
        )

    def _value_targets(self, batch: Transitions, next_obs: tf.Tensor) -> tf.Tensor:
        actions = self._networks.actor_target(next_obs)
        (critic,) = self._networks.critic_targets
        next_values = action_values(critic, next_obs, actions)
        return batch.rewards + batch.discounts * next_values

    def _update_policy(self, obs: tf.Tensor, metrics: Means) -> Means:
        metrics = add_metrics(metrics, self._networks.update_actor(obs))
        update_targets(self._setup.targets, self._config.tau)
        return metrics
