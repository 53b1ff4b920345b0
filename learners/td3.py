"""Twin delayed deep deterministic policy gradient."""

import tensorflow as tf

from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners.actor_and_critics import (
    ActorAndCritics,
    smooth_target_actions,
)
from xagents_ray.learners.math.noise import normal_noise
from xagents_ray.learners.metrics import AlgorithmOutputs, Means, add_metrics_if
from xagents_ray.learners.optimizer import update_targets
from xagents_ray.learners.priorities import sampled_batches
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase


class TD3:
    """DDPG with the smaller of two critics, smooth targets and a delayed actor.

    Source: arXiv:1802.09477.
    """

    def __init__(self, setup: LearnerSetup[TD3Config]) -> None:
        self._config, self._setup = setup.config, setup
        self.data = sampled_batches(setup.config)
        self._networks = ActorAndCritics(setup)
        self._updates = setup.counter("updates")

    def learn(self, batches: Transitions, phase: Phase) -> AlgorithmOutputs:
        """Update the critics on each of K minibatches, and the actor on some."""
        return self._networks.learn(
            batches, phase, self._value_targets, self._update_policy
        )

    def _value_targets(self, batch: Transitions, next_obs: tf.Tensor) -> tf.Tensor:
        """Return the value targets of all critics, float32 [N]."""
        c = self._config
        noise = normal_noise(self._setup.seed, self._updates, tf.shape(batch.actions))
        means = self._networks.actor_target(next_obs)
        actions = smooth_target_actions(means, noise, c.policy_noise_coef, c.noise_clip)
        values = self._networks.target_values(next_obs, actions, self._updates)
        return batch.rewards + batch.discounts * values

    def _update_policy(self, obs: tf.Tensor, metrics: Means) -> Means:
        def update() -> dict[str, tf.Tensor]:
            own = self._networks.update_actor(obs)
            update_targets(self._setup.targets, self._config.tau)
            return own

        self._updates.assign_add(1)
        is_due = self._updates % self._config.policy_delay == 0
        return add_metrics_if(is_due, update, metrics)
