"""Deep Q-learning, plain and double."""

import tensorflow as tf

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.learners import frames
from xagents_ray.learners.math import losses
from xagents_ray.learners.metrics import Means, add, added, no_means
from xagents_ray.learners.minibatches import update_on_batches
from xagents_ray.learners.optimizer import descend, make_optimizer, update_targets
from xagents_ray.learners.setup import LearnerSetup, counter
from xagents_ray.learners.tensors import Phase, TransitionBatches, at


class DQN:
    """Updates from replayed transitions towards a target network's values.

    Source: doi:10.1038/nature14236; double, arXiv:1509.06461.
    """

    data = TransitionBatches

    def __init__(self, setup: LearnerSetup[DQNConfig]) -> None:
        self._config, self._setup = setup.config, setup
        self._q, self._target = setup.with_target(setup.layouts[0], "q")
        self._optimizer = make_optimizer(setup.config, self._q.trainable_variables)
        self._syncs = counter()
        self.models = {"q": self._q, "target": self._target}
        self.targets = [(self._target, self._q)]
        self.optimizers = {"optimizer": self._optimizer}
        self.variables = {"count/syncs": self._syncs}

    def learn(
        self, batches: TransitionBatches, phase: Phase
    ) -> tuple[Means, tf.Tensor]:
        """Update on each of K minibatches; sync the target when that is due."""

        def update(k: tf.Tensor, metrics: Means) -> Means:
            due = self._syncs_due(phase.batches - 1 - k, phase.env_steps)
            if due > self._syncs:
                update_targets(self.targets, self._config.tau)
                self._syncs.assign(due)
            return add(metrics, self._update(at(batches, k)))

        metrics = no_means("loss", "q_value", "grad_norm")
        metrics = update_on_batches(update, metrics, phase, self._setup)
        return metrics, added(metrics)

    def _syncs_due(self, later: tf.Tensor, env_steps: tf.Tensor) -> tf.Tensor:
        """Return how many syncs of the whole run come before an update.

        The phase's last update answers the newest env step; those with `later` ones
        after them answer one `train_frequency` earlier per `gradient_steps`.
        """
        c = self._config
        periods = tf.cast(later // c.gradient_steps, tf.int64)
        return (env_steps - periods * c.train_frequency) // c.target_sync_steps

    def _update(self, batch: TransitionBatches) -> dict[str, tf.Tensor]:
        """Take one gradient step on [N, ...] transitions."""
        c, inputs = self._config, self._setup.inputs
        obs, next_obs = frames.transition_inputs(
            batch.observations, batch.starts, self._setup.spec
        )
        next_inputs = inputs(next_obs)
        target_values = self._target(next_inputs)
        selection_values = self._q(next_inputs) if c.double else target_values
        targets = losses.q_targets(
            batch.rewards, batch.discounts, target_values, selection_values
        )
        with tf.GradientTape() as tape:
            values = self._q(inputs(obs))
            taken = tf.gather(values, batch.actions, axis=-1, batch_dims=1)
            loss = losses.huber(targets - taken)
        variables = self._q.trainable_variables
        norm = descend(self._optimizer, tape, loss, variables, c.grad_norm)
        return {"loss": loss, "q_value": tf.reduce_mean(taken), "grad_norm": norm}
