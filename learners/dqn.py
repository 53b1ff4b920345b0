"""Deep Q-learning: plain, double, dueling, noisy, distributional."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.trajectory import Trajectory, Transitions
from xagents_ray.learners import frames
from xagents_ray.learners.math import losses, returns
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
from xagents_ray.learners.optimizer import update_targets
from xagents_ray.learners.priorities import (
    Errors,
    importance_weights,
    no_errors,
    sampled_batches,
    sequence_errors,
    with_errors,
)
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase, batch_at, flatten_time
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


_Prediction = Callable[[Any, Any], _Predicted]
"""Returns predictions of a network with some noise, or None."""


class DQN:
    """Learns from replayed transitions, with values of a target network.

    Source: doi:10.1038/nature14236; double, arXiv:1509.06461; dueling,
        arXiv:1511.06581; noisy, arXiv:1706.10295; distributional, arXiv:1707.06887.
    """

    def __init__(self, setup: LearnerSetup[DQNConfig]) -> None:
        self._config, self._setup = setup.config, setup
        layout = setup.layouts[0]
        self._has_memory = layout.state_units > 0
        self.data = sampled_batches(setup.config, self._has_memory)
        self._q, self._target = setup.with_target(layout, "q", "target")
        self._burning: dict[str, Any] = {}
        if setup.config.burn_in:
            self._burning = {
                self._q.name: setup.final_state(layout, "q"),
                self._target.name: setup.final_state(layout, "target"),
            }
        self._optimizer = setup.optimizer(self._q.trainable_variables)
        self._syncs = setup.counter("syncs")

    def learn(self, batches: Any, phase: Phase) -> AlgorithmOutputs:
        """Update on each of K minibatches; sync the target network when due."""

        def update(k: tf.Tensor, so_far: tuple[Means, Errors]) -> tuple[Means, Errors]:
            metrics, errors = so_far
            later = phase.batches - 1 - k + phase.later
            self._sync(self._syncs_due(later, phase.env_steps))
            batch = batch_at(batches, k)
            weights = importance_weights(batch, self._config.priority_beta, phase)
            step = self._learn_sequences if self._has_memory else self._update
            new_metrics, new_errors = step(batch, weights)
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

    def _sync(self, due: tf.Tensor) -> None:
        """Sync the target network if fewer than `due`, int64 [], syncs were made."""

        def sync() -> tf.Tensor:
            update_targets(self._setup.targets, self._config.tau)
            return self._syncs.assign(due)

        tf.cond(due > self._syncs, sync, lambda: due)

    def _update(
        self, batch: Transitions, weights: tf.Tensor | None
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Take one gradient step on N transitions; return metrics and errors, [N]."""
        inputs = self._setup.inputs
        obs, next_obs = frames.transition_inputs(
            batch.observations, batch.starts, self._setup.spec
        )
        next_inputs, noise = inputs(next_obs), self._noise(tf.shape(batch.rewards)[0])
        return self._take_step(
            batch,
            weights,
            noise,
            before=lambda model, own: self._predicted(model, inputs(obs), own),
            after=lambda model, own: self._predicted(model, next_inputs, own),
        )

    def _learn_sequences(
        self, r: Trajectory, weights: tf.Tensor | None
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Take one gradient step on N sequences; return metrics and errors, [1, N].

        Both networks begin with the stored state. The first --burn-in steps only bring
        it up to date.
        """
        spec = self._setup.spec
        inputs = self._setup.inputs(
            frames.rollout_inputs(r.observations, r.starts, spec)
        )
        noise = self._noise(tf.size(r.starts[spec.stack - 1 :]))
        steps, later = self._steps_of(r)
        valid = r.valid[self._config.burn_in :]
        if weights is not None:
            weights = flatten_time(tf.broadcast_to(weights, tf.shape(valid)))

        def at(model: Any, own: Any, rows: tf.Tensor) -> _Predicted:
            found = self._unrolled(model, inputs, own, r)
            return _Predicted(*(tf.gather(x, rows) for x in found if x is not None))

        metrics, errors = self._take_step(
            steps,
            weights,
            noise,
            before=lambda model, own: at(model, own, tf.range(tf.size(valid))),
            after=lambda model, own: at(model, own, later),
            valid=flatten_time(valid),
        )
        return metrics, sequence_errors(tf.reshape(errors, tf.shape(valid)), valid)

    def _steps_of(self, r: Trajectory) -> tuple[Transitions, tf.Tensor]:
        """Return what to learn from N sequences after the burn-in, [T * N].

        Also return the row of each step's next observation, int32 [T * N].
        """
        c, masks, burn_in = self._config, r.action_masks, self._config.burn_in
        sums, discounts, steps = returns.n_step_sums(
            r.rewards[burn_in:],
            r.terminated[burn_in:],
            r.valid[burn_in:],
            c.gamma,
            c.n_step,
        )
        ahead = flatten_time(steps) * tf.shape(steps)[1]
        later = tf.range(tf.size(steps)) + ahead
        if masks is not None:
            masks = tf.gather(flatten_time(masks[burn_in:]), later)
        learned = Transitions(
            observations=r.observations,
            starts=r.starts,
            actions=flatten_time(r.actions[burn_in:]),
            rewards=flatten_time(sums),
            discounts=flatten_time(discounts),
            action_masks=masks,
        )
        return learned, later

    def _unrolled(
        self, model: Any, inputs: Any, noise: tf.Tensor | None, r: Any
    ) -> _Predicted:
        """Return predictions for the rows of N sequences after the burn-in.

        Args:
            model: the online or the target network.
            inputs: network inputs for all (T + 1) * N rows.
            noise: float32 [1 or (T + 1) * N, units], or None.
            r: the sequences.
        """
        burn_in, starts = self._config.burn_in, r.starts[self._setup.spec.stack - 1 :]
        count, state = burn_in * tf.shape(starts)[1], r.recurrent_state[0]
        first, rest = (
            [tf.nest.map_structure(lambda x, part=part: x[part], inputs)]
            for part in (slice(count), slice(count, None))
        )
        if noise is not None and self._config.noisy == FACTORISED:
            first, rest = [*first, noise], [*rest, noise]
        elif noise is not None:
            first, rest = [*first, noise[:count]], [*rest, noise[count:]]
        if burn_in:
            final = self._burning[model.name]
            state = tf.stop_gradient(final([*first, state, starts[:burn_in]]))
        outputs = model([*rest, state, starts[burn_in:]])
        return self._named(outputs)

    def _take_step(
        self,
        batch: Transitions,
        weights: tf.Tensor | None,
        noise: list[Any],
        before: _Prediction,
        after: _Prediction,
        valid: tf.Tensor | None = None,
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Take one gradient step on N transitions; return metrics and errors, [N].

        Args:
            batch: the transitions; observations and starts are not used.
            weights: float32 [N], weights in the loss; None if equal.
            noise: noise of the networks in each of three passes.
            before: predicts for the observations.
            after: predicts for the next observations.
            valid: bool [N], transitions that count; None for all.
        """
        c = self._config
        target = after(self._target, noise[0])
        selection = after(self._q, noise[1]) if c.double else target
        allowed = masked(selection.values, batch.action_masks)
        metrics, weights = dict[str, tf.Tensor](), _weights_of(weights, valid)
        if c.distributional:
            targets, clipped = self._target_probs(batch, target, allowed)
            metrics["clipped"] = _mean(clipped, valid)
        else:
            discounts = batch.discounts
            targets = losses.q_targets(batch.rewards, discounts, target.values, allowed)
        with tf.GradientTape() as tape:
            predicted = before(self._q, noise[-1])
            taken = tf.gather(predicted.values, batch.actions, batch_dims=1)
            if c.distributional:
                logits = logits_of(predicted.logits, batch.actions, c.atoms)
                # Priorities, too, as in Dopamine; Rainbow has the KL divergence.
                errors = losses.cross_entropies(targets, logits)
                loss = losses.weighted_mean(errors, weights)
            else:
                errors = targets - taken
                loss = losses.huber(errors, weights)
        own = self._q.trainable_variables
        norm = self._setup.step(self._optimizer, tape, loss, own, c.grad_norm)
        metrics |= {"loss": loss, "q_value": _mean(taken, valid), "grad_norm": norm}
        return metrics, errors

    def _target_probs(
        self, batch: Transitions, target: _Predicted, selection: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return target distributions, [N, atoms], and their clipped share, [N].

        `selection`, float32 [N, n], are the values that select the next actions.
        """
        best = tf.argmax(selection, axis=1)
        probs = tf.nn.softmax(logits_of(target.logits, best, self._config.atoms))
        return projected_targets(
            batch.rewards, batch.discounts, probs, self._config.support
        )

    def _predicted(self, model: Any, x: tf.Tensor, noise: tf.Tensor) -> _Predicted:
        """Return a network's predictions for [N, *input_shape]; noise may be None."""
        return self._named(model(x if noise is None else [x, noise]))

    def _named(self, outputs: Any) -> _Predicted:
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


def _mean(x: tf.Tensor, valid: tf.Tensor | None) -> tf.Tensor:
    """Return the mean of the valid rows, or of all."""
    return tf.reduce_mean(x) if valid is None else losses.masked_mean(x, valid)


def _weights_of(weights: tf.Tensor | None, valid: tf.Tensor | None) -> tf.Tensor | None:
    """Return weights with which the mean of all rows is that of the valid ones."""
    if valid is None:
        return weights
    counted = tf.cast(valid, tf.float32)
    scaled = tf.math.divide_no_nan(counted, tf.reduce_mean(counted))
    return scaled if weights is None else scaled * weights
