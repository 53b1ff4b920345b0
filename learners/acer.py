"""Actor-critic with experience replay."""

import tensorflow as tf

from xagents_ray.algorithms.acer import ACERConfig
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners import frames
from xagents_ray.learners.math import importance, losses, returns
from xagents_ray.learners.math.distributions import masked
from xagents_ray.learners.metrics import (
    AlgorithmOutputs,
    Means,
    add_metrics_if,
    no_means,
    update_count,
)
from xagents_ray.learners.minibatches import update_on_batches
from xagents_ray.learners.optimizer import update_targets
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import (
    ROLLOUT_BATCHES,
    Phase,
    batch_at,
    flatten_time,
    masks_of,
)


class ACER:
    """One gradient step on each round of trajectories, and on each replayed batch.

    The network's outputs are the policy's logits and the value of each action. A round
    is treated like a replayed batch: importance ratios to the behavior policy correct
    for its age.

    Source: arXiv:1611.01224.
    """

    def __init__(self, setup: LearnerSetup[ACERConfig]) -> None:
        self._config, self._setup = setup.config, setup
        layout = setup.layouts[0]
        self.data = ROLLOUT_BATCHES.with_noise_of(layout)
        self._model, self._average = setup.with_target(layout, "policy", "average")
        self._optimizer = setup.optimizer(self._model.trainable_variables)

    def learn(self, batches: Trajectory, phase: Phase) -> AlgorithmOutputs:
        """Take one step on each of K batches [T, B] with valid rows."""
        metrics = no_means(
            "policy_loss",
            "value_loss",
            "entropy",
            "explained_variance",
            "importance_ratio",
            "trust_region_bound",
            "grad_norm",
        )

        def update(k: tf.Tensor, metrics: Means) -> Means:
            # Even without a gradient, Adam's momentum would change the weights.
            return add_metrics_if(
                tf.reduce_any(batches.valid[k]),
                lambda: self._update(batch_at(batches, k)),
                metrics,
            )

        metrics = update_on_batches(update, metrics, phase, self._setup)
        return AlgorithmOutputs(metrics, update_count(metrics))

    def _update(self, batch: Trajectory) -> dict[str, tf.Tensor]:
        """Take one gradient step on [T, B] rows."""
        c, valid, actions = (
            self._config,
            flatten_time(batch.valid),
            flatten_time(batch.actions),
        )
        count, variables = tf.size(valid), self._model.trainable_variables
        inputs = self._setup.inputs(
            frames.rollout_inputs(batch.observations, batch.starts, self._setup.spec)
        )
        inputs = frames.network_inputs(inputs, batch, self._setup.spec)
        masks = masks_of(batch)
        average = tf.nn.softmax(masked(self._average(inputs)[0], masks))[:count]
        with tf.GradientTape() as tape:
            logits, q_values = self._model(inputs)
            policy = tf.nn.softmax(masked(logits, masks))
            values = tf.reduce_sum(tf.stop_gradient(policy * q_values), axis=1)
            policy, q_values = policy[:count], q_values[:count]
            ratios = importance.ratios(
                policy, flatten_time(batch.probabilities), c.epsilon
            )
            taken, ratio = (
                tf.gather(x, actions, batch_dims=1) for x in (q_values, ratios)
            )
            targets = self._retrace(batch, ratio, taken, values)
            value_loss = 0.5 * losses.masked_mean(tf.square(targets - taken), valid)
            critic = targets, q_values, values[:count]
            objective, parts = self._objective(policy, ratios, actions, critic, average)
            loss = c.value_loss_coef * value_loss
            loss -= losses.masked_mean(objective, valid)
        norm = self._setup.step(self._optimizer, tape, loss, variables, c.grad_norm)
        update_targets(self._setup.targets, 1 - c.ema_alpha)
        parts = {**parts, "importance_ratio": ratio}
        means = {name: losses.masked_mean(x, valid) for name, x in parts.items()}
        means["explained_variance"] = losses.explained_variance(taken, targets, valid)
        return {**means, "value_loss": value_loss, "grad_norm": norm}

    def _retrace(
        self, b: Trajectory, ratio: tf.Tensor, taken: tf.Tensor, values: tf.Tensor
    ) -> tf.Tensor:
        """Return Retrace targets of the taken actions' values, float32 [T * B]."""
        shape = tf.shape(b.rewards)
        targets = returns.retrace(
            tf.reshape(ratio, shape),
            b.rewards,
            tf.reshape(tf.stop_gradient(taken), shape),
            tf.reshape(values, [-1, shape[1]]),
            b.terminated,
            b.truncated,
            self._config.gamma,
        )
        return flatten_time(targets)

    def _objective(
        self,
        policy: tf.Tensor,
        ratios: tf.Tensor,
        actions: tf.Tensor,
        critic: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        average: tf.Tensor,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Return the objective that the policy maximizes, and metrics.

        The policy, the average policy and the ratios are float32 [N, n], the actions
        int32 [N]. `critic` has Retrace targets [N], the values of all actions [N, n],
        and their means under the policy [N]; no gradient passes through these.

        Returns:
            float32 [N], of which only the gradient matters, and metrics [N] by name.
        """
        c = self._config
        with tf.GradientTape() as tape:
            tape.watch(policy)
            gains = importance.corrected_gain(
                policy, ratios, actions, *critic, c.importance_c, c.epsilon
            )
            entropies = importance.entropy(policy, c.epsilon)
            objective = gains + self._setup.value(c.entropy_coef) * entropies
        bound = tf.zeros_like(gains)
        if c.kl_weight:
            objective -= c.kl_weight * importance.kl(average, policy, c.epsilon)
        elif c.trust_region:
            gradient, binds = importance.project(
                tape.gradient(objective, policy), policy, average, c.delta, c.epsilon
            )
            objective = tf.reduce_sum(policy * tf.stop_gradient(gradient), axis=1)
            bound = tf.cast(binds, tf.float32)
        metrics = {"policy_loss": -gains, "entropy": entropies}
        return objective, {**metrics, "trust_region_bound": bound}
