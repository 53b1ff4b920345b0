"""Deep Q-learning, plain and double."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, Transitions, Weights
from xagents_ray.learners import losses
from xagents_ray.learners.deterministic import polyak, with_target
from xagents_ray.learners.frames import stack_transitions
from xagents_ray.learners.learner import Metrics, named
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.state import LearnerState
from xagents_ray.networks.layout import Layout

_METRICS = ("loss", "q_value", "grad_norm")


class DQNLearner:
    """Updates from replayed transitions towards a target network's values.

    Source: doi:10.1038/nature14236; double, arXiv:1509.06461.
    """

    def __init__(
        self, config: DQNConfig, spec: EnvSpec, layout: Layout, seed: int
    ) -> None:
        self._config, self._spec, self._layout = config, spec, layout
        self._model, self._target = with_target(layout, seed, "q")
        self._optimizer = make_optimizer(config, self._model.trainable_variables)
        self._stopping = tf.Variable(False, trainable=False)
        models = {"q": self._model, "target": self._target}
        self.normalizer = Normalizer(config, spec)
        optimizers = {"optimizer": self._optimizer}
        self.state = LearnerState(models, optimizers, self.normalizer.named("q"))
        self._phase = tf.function(self._learn, input_signature=self._signature())

    def update(self, batch: Transitions, env_steps: int) -> Metrics:
        """Learn from K batches; sync the target whenever a sync step was crossed."""
        counts = self.state.counts
        means, updates, syncs = self._phase(
            *batch, np.int64(env_steps), np.int64(counts["syncs"])
        )
        counts["syncs"] = int(syncs)
        return named(_METRICS, means, updates)

    def policy_weights(self) -> Weights:
        """Return the newest weights to act with, under a new version."""
        return self.state.weights("q")

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Begin with these weights, by name: `q/dense-0/kernel`."""
        self.state.assign(arrays)
        self._target.set_weights(self._model.get_weights())

    def stop(self) -> None:
        """Make an update in progress end after its current batch."""
        self._stopping.assign(True)

    def _signature(self) -> list[tf.TensorSpec]:
        frames = [None, None, self._spec.stack + 1]
        shape = [*frames, *self._spec.observation_shape]
        return [
            tf.TensorSpec(shape, self._spec.observation_dtype),
            tf.TensorSpec(frames, tf.bool),
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, None], tf.float32),
            tf.TensorSpec([None, None], tf.bool),
            *[tf.TensorSpec([], tf.int64)] * 2,
        ]

    def _learn(
        self,
        observations: tf.Tensor,
        starts: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
        env_steps: tf.Tensor,
        syncs: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """K updates on [K, N, ...]; returns metrics [3], updates, syncs so far."""
        total = tf.zeros(len(_METRICS))
        updates = tf.constant(0)
        count = tf.shape(rewards)[0]
        for k in tf.range(count):
            if self._stopping:
                break
            due = self._syncs_before(count - 1 - k, env_steps)
            if due > syncs:
                polyak(self._target.weights, self._model.weights, self._config.tau)
                syncs = due
            total += self._minibatch(
                observations[k], starts[k], actions[k], rewards[k], terminated[k]
            )
            updates += 1
        return total / tf.cast(tf.maximum(updates, 1), tf.float32), updates, syncs

    def _syncs_before(self, later: tf.Tensor, env_steps: tf.Tensor) -> tf.Tensor:
        """Return how many sync steps lie before an update.

        Args:
            later: int32 [], updates of this phase that follow it; the last one
                answers the newest env step, the others one `train_frequency` earlier
                per `gradient_steps`.
            env_steps: int64 [], of the whole run.
        """
        c = self._config
        periods = tf.cast(later // c.gradient_steps, tf.int64)
        return (env_steps - periods * c.train_frequency) // c.target_sync_steps

    def _minibatch(
        self,
        observations: tf.Tensor,
        starts: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
    ) -> tf.Tensor:
        """One gradient step on [N, ...] transitions; returns metrics [3]."""
        if self._spec.is_image:
            now, after = stack_transitions(observations, starts)
        else:
            now, after = observations[:, 0], observations[:, 1]
        after = self.normalizer.inputs(self._layout, after)
        target_values = self._target(after)
        choosing = self._model(after) if self._config.double else target_values
        targets = losses.q_targets(
            self.normalizer.rewards(rewards),
            terminated,
            target_values,
            choosing,
            self._config.gamma,
        )
        with tf.GradientTape() as tape:
            values = self._model(self.normalizer.inputs(self._layout, now))
            taken = tf.gather(values, actions, axis=-1, batch_dims=1)
            loss = losses.huber(targets - taken)
        variables = self._model.trainable_variables
        norm = descend(self._optimizer, tape, loss, variables, self._config.grad_norm)
        return tf.stack([loss, tf.reduce_mean(taken), norm])
