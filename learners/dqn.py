"""Deep Q-learning: plain, double, dueling, noisy, distributional."""

from typing import Any, NamedTuple

import tensorflow as tf

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners import frames
from xagents_ray.learners.math import losses
from xagents_ray.learners.math.categorical import logits_of, projected_targets
from xagents_ray.learners.math.distributions import masked
from xagents_ray.learners.math.noise import normal_noise
from xagents_ray.learners.metrics import (
    AlgorithmOutputs,
    Means,
    add_metrics,
    no_means,
    update_count,
)
from xagents_ray.learners.minibatches import update_on_batches
from xagents_ray.learners.optimizer import gradient_step, update_targets
from xagents_ray.learners.priorities import (
    Errors,
    importance_weights,
    no_errors,
    sampled_batches,
    with_errors,
)
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, batch_at
from xagents_ray.networks.noisy import FACTORISED


class _Predicted(NamedTuple):
    """A network's predictions for N observations.

    Attributes:
        values: float32 [N, n] values of the actions.
        logits: float32 [N, n * atoms] logits of the actions' return distributions, or
            None.
    """

    values: tf.Tensor
    logits: tf.Tensor | None = None


class DQN:
    """Learns from replayed transitions, with values of a target network.

    Source: doi:10.1038/nature14236; double, arXiv:1509.06461; dueling,
        arXiv:1511.06581; noisy, arXiv:1706.10295; distributional, arXiv:1707.06887.
    """

    def __init__(self, setup: LearnerSetup[DQNConfig]) -> None:
        self._config, self._setup = setup.config, setup
        self.data = sampled_batches(setup.config)
        self._q, self._target = setup.with_target(setup.layouts[0], "q", "target")
        self._optimizer = setup.optimizer(self._q.trainable_variables)
        self._syncs = setup.counter("syncs")

    def learn(self, batches: Transitions, phase: Phase) -> AlgorithmOutputs:
        """Update on each of K minibatches; sync the target network when due."""

        def update(k: tf.Tensor, so_far: tuple[Means, Errors]) -> tuple[Means, Errors]:
            metrics, errors = so_far
            due = self._syncs_due(phase.batches - 1 - k, phase.env_steps)
            if due > self._syncs:
                update_targets(self._setup.targets, self._config.tau)
                self._syncs.assign(due)
            new_metrics, new_errors = self._update(batch_at(batches, k), phase)
            return add_metrics(metrics, new_metrics), with_errors(errors, k, new_errors)

        clipped = ["clipped"] * self._config.distributional
        metrics = no_means("loss", "q_value", "grad_norm", *clipped)
        start = metrics, no_errors(batches)
        metrics, errors = update_on_batches(update, start, phase, self._setup)
        return AlgorithmOutputs(metrics, update_count(metrics), *errors)

    def _syncs_due(self, later: tf.Tensor, env_steps: tf.Tensor) -> tf.Tensor:
        """Return the number of target syncs due in the run before an update.

        The phase's last update belongs to the newest env step. Every `gradient_steps`
        of the `later` updates after this one move it back by `train_frequency`.
        """
        c = self._config
        periods = tf.cast(later // c.gradient_steps, tf.int64)
        return (env_steps - periods * c.train_frequency) // c.target_sync_steps

    def _update(
        self, batch: Transitions, phase: Phase
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Take one gradient step on N transitions; return metrics and errors, [N]."""
        weights = importance_weights(batch, self._config.priority_beta, phase)
        c, inputs = self._config, self._setup.inputs
        obs, next_obs = frames.transition_inputs(
            batch.observations, batch.starts, self._setup.spec
        )
        next_inputs, noise = inputs(next_obs), self._noise(tf.shape(batch.rewards)[0])
        target = self._predicted(self._target, next_inputs, noise[0])
        selection = target
        if c.double:
            selection = self._predicted(self._q, next_inputs, noise[1])
        allowed = masked(selection.values, batch.action_masks)
        metrics = dict[str, tf.Tensor]()
        if c.distributional:
            targets, clipped = self._target_probs(batch, target, allowed)
            metrics["clipped"] = tf.reduce_mean(clipped)
        else:
            targets = losses.q_targets(
                batch.rewards, batch.discounts, target.values, allowed
            )
        with tf.GradientTape() as tape:
            predicted = self._predicted(self._q, inputs(obs), noise[-1])
            taken = tf.gather(predicted.values, batch.actions, axis=-1, batch_dims=1)
            if c.distributional:
                logits = logits_of(predicted.logits, batch.actions, c.atoms)
                # Also the priorities, as in DQN Zoo and Dopamine; Rainbow's paper has
                # the KL divergence, without the targets' entropy.
                errors = losses.cross_entropies(targets, logits)
                loss = losses.weighted_mean(errors, weights)
            else:
                errors = targets - taken
                loss = losses.huber(errors, weights)
        variables = self._q.trainable_variables
        norm = gradient_step(self._optimizer, tape, loss, variables, c.grad_norm)
        q_value = tf.reduce_mean(taken)
        metrics |= {"loss": loss, "q_value": q_value, "grad_norm": norm}
        return metrics, errors

    def _target_probs(
        self, batch: Transitions, target: _Predicted, selection: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return target distributions, [N, atoms], and their clipped share, [N].

        `selection`, float32 [N, n], are the values that select the next actions.
        """
        best = tf.argmax(selection, axis=-1)
        probs = tf.nn.softmax(logits_of(target.logits, best, self._config.atoms))
        return projected_targets(
            batch.rewards, batch.discounts, probs, self._config.support
        )

    def _predicted(self, model: Any, x: tf.Tensor, noise: tf.Tensor) -> _Predicted:
        """Return a network's predictions for [N, *input_shape]; noise may be None."""
        outputs = model(x if noise is None else [x, noise])
        if self._config.distributional:
            return _Predicted(*outputs)
        return _Predicted(outputs)

    def _noise(self, rows: tf.Tensor) -> list[tf.Tensor]:
        """Return noise for an update's three forward passes, float32 [1 or N, units].

        Factorised noise perturbs the weights, which all N rows share; independent noise
        perturbs each row's pre-activations. Without noisy layers, return None for each.

        Source: arXiv:1706.10295, section 3.1.
        """
        units = self._setup.layouts[0].noise_units
        if not units:
            return [None] * 3
        if self._config.noisy == FACTORISED:
            rows = 1
        update = tf.cast(self._optimizer.iterations, tf.int64)
        noise = normal_noise(self._setup.seed, update, [3, rows, units])
        return tf.unstack(noise)
