"""Deep deterministic policy gradient."""

from collections.abc import Mapping

import tensorflow as tf

from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, Transitions, Weights
from xagents_ray.learners import losses
from xagents_ray.learners.deterministic import (
    judge,
    polyak,
    signature,
    with_target,
)
from xagents_ray.learners.learner import Metrics, named
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.state import LearnerState
from xagents_ray.networks.layout import Layout

_METRICS = (
    "value_loss",
    "q_value",
    "value_grad_norm",
    "policy_loss",
    "policy_grad_norm",
)


class DDPGLearner:
    """An actor that climbs its critic; targets follow both.

    Source: arXiv:1509.02971.
    """

    def __init__(
        self,
        config: DDPGConfig,
        spec: EnvSpec,
        actor_layout: Layout,
        critic_layout: Layout,
        seed: int,
    ) -> None:
        self._config, self._layout = config, actor_layout
        self._actor, self._actor_target = with_target(actor_layout, seed, "actor")
        self._critic, self._critic_target = with_target(critic_layout, seed, "critic")
        self._pairs = (
            (self._actor, self._actor_target),
            (self._critic, self._critic_target),
        )
        self._actor_optimizer = make_optimizer(config, self._actor.trainable_variables)
        self._critic_optimizer = make_optimizer(
            config, self._critic.trainable_variables, config.critic_lr
        )
        self._stopping = tf.Variable(False, trainable=False)
        self.normalizer = Normalizer(config, spec)
        self.state = LearnerState(
            {
                "actor": self._actor,
                "critic": self._critic,
                "actor-target": self._actor_target,
                "critic-target": self._critic_target,
            },
            {
                "actor-optimizer": self._actor_optimizer,
                "critic-optimizer": self._critic_optimizer,
            },
            self.normalizer.named("actor"),
        )
        self._phase = tf.function(self._learn, input_signature=signature(spec))

    def update(self, batch: Transitions, env_steps: int) -> Metrics:
        """Learn from K batches."""
        means, updates = self._phase(
            batch.observations, batch.actions, batch.rewards, batch.terminated
        )
        return named(_METRICS, means, updates)

    def policy_weights(self) -> Weights:
        """Return the newest weights to act with, under a new version."""
        return self.state.weights("actor")

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Begin with these weights, by name: `actor/dense-0/kernel`."""
        self.state.assign(arrays)
        for model, target in self._pairs:
            target.set_weights(model.get_weights())

    def stop(self) -> None:
        """Make an update in progress end after its current batch."""
        self._stopping.assign(True)

    def _learn(
        self,
        observations: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """K updates on [K, N, ...]; returns metrics [5]."""
        total = tf.zeros(len(_METRICS))
        updates = tf.constant(0)
        rewards = self.normalizer.rewards(rewards)
        for k in tf.range(tf.shape(rewards)[0]):
            if self._stopping:
                break
            seen = self.normalizer.inputs(self._layout, observations[k])
            now, after = seen[:, 0], seen[:, 1]
            judged = self._improve_critic(
                now, actions[k], rewards[k], terminated[k], after
            )
            acted = self._improve_actor(now)
            self._follow()
            total += tf.concat([judged, acted], axis=0)
            updates += 1
        return total / tf.cast(tf.maximum(updates, 1), tf.float32), updates

    def _improve_critic(
        self,
        now: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
        after: tf.Tensor,
    ) -> tf.Tensor:
        """One gradient step on [N, ...] transitions; returns metrics [3]."""
        next_values = judge(self._critic_target, after, self._actor_target(after))
        gamma = self._config.gamma
        targets = losses.one_step_targets(rewards, terminated, next_values, gamma)
        variables = self._critic.trainable_variables
        with tf.GradientTape() as tape:
            values = judge(self._critic, now, actions)
            loss = losses.squared(targets - values)
        norm = descend(
            self._critic_optimizer, tape, loss, variables, self._config.grad_norm
        )
        return tf.stack([loss, tf.reduce_mean(values), norm])

    def _improve_actor(self, now: tf.Tensor) -> tf.Tensor:
        """One gradient step on [N, D] observations; returns metrics [2]."""
        variables = self._actor.trainable_variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            # Not the critic's too, whose own gradient nobody needs.
            tape.watch([variable.value for variable in variables])
            loss = -tf.reduce_mean(judge(self._critic, now, self._actor(now)))
        norm = descend(
            self._actor_optimizer, tape, loss, variables, self._config.grad_norm
        )
        return tf.stack([loss, norm])

    def _follow(self) -> None:
        for model, target in self._pairs:
            polyak(target.weights, model.weights, self._config.tau)
