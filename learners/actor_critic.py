"""Shared by A2C, A3C and IMPALA: a gradient step on trajectories."""

from typing import Any

import tensorflow as tf

from xagents_ray.algorithms.a2c import A2CConfig
from xagents_ray.algorithms.a3c import A3CConfig
from xagents_ray.algorithms.impala import IMPALAConfig
from xagents_ray.algorithms.state_dependent import noise_of
from xagents_ray.learners import frames
from xagents_ray.learners.math import losses, returns
from xagents_ray.learners.metrics import (
    AlgorithmOutputs,
    Means,
    add_metrics_if,
    no_means,
    update_count,
)
from xagents_ray.learners.minibatches import update_on_batches
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import (
    Phase,
    batch_at,
    flatten_time,
    masks_of,
)


class ActorCritic:
    """A network with a policy and a value, and its optimizer.

    Args:
        setup: setup of the learner.
        largest_rho: bound on the V-trace ratios that weight errors and advantages.
        largest_c: bound on the V-trace ratios that propagate later errors backwards.
    """

    def __init__(
        self,
        setup: LearnerSetup[A2CConfig | A3CConfig | IMPALAConfig],
        largest_rho: float = 1.0,
        largest_c: float = 1.0,
    ) -> None:
        self._config, self._setup = setup.config, setup
        self._largest_rho, self._largest_c = largest_rho, largest_c
        self._model = setup.network(setup.layouts[0], "policy")
        log_std = noise_of(setup.config).shared_log_std
        self._head = setup.policy_head("policy", log_std)
        more = self._head.variables.values()
        self._variables = [*self._model.trainable_variables, *more]
        self._optimizer = setup.optimizer(self._variables)

    def learn(self, data: Any, phase: Phase, first_version: Any) -> AlgorithmOutputs:
        """Take one step on a round [T, B], and on each replayed batch.

        V-trace corrects data of weights older than `first_version`; replayed data
        counts as version -1. Other value targets are n-step returns, or with --lam
        those of GAE.
        """
        metrics = no_means(
            "policy_loss", "value_loss", "entropy", "explained_variance", "grad_norm"
        )
        if self._config.replay is None:
            metrics = tf.cond(
                ~self._setup.stopping,
                lambda: self._step(data, first_version, metrics),
                lambda: metrics,
            )
            return AlgorithmOutputs(metrics, update_count(metrics))

        def update(k: tf.Tensor, metrics: Means) -> Means:
            return self._step(batch_at(data, k), first_version, metrics)

        metrics = update_on_batches(update, metrics, phase, self._setup)
        return AlgorithmOutputs(metrics, update_count(metrics))

    def _step(self, batch: Any, first_version: Any, metrics: Means) -> Means:
        """Take one step on rows [T, B], unless none of them is valid."""
        # Even without a gradient, Adam's momentum would change the weights.
        is_old = batch.weights_version < first_version
        return add_metrics_if(
            tf.reduce_any(batch.valid), lambda: self._update(batch, is_old), metrics
        )

    def _update(self, r: Any, is_old: tf.Tensor) -> dict[str, tf.Tensor]:
        """Take one gradient step, with V-trace if the rows are old."""
        c, count, valid = self._config, tf.size(r.rewards), flatten_time(r.valid)
        inputs = self._setup.inputs(
            frames.rollout_inputs(r.observations, r.starts, self._setup.spec)
        )
        inputs = frames.network_inputs(inputs, r, self._setup.spec)
        with tf.GradientTape() as tape:
            # Pass all rows, even invalid ones: a constant input shape keeps the memory
            # of the network's kernels constant.
            outputs, values, *log_std = self._model(inputs)
            policy = self._head(outputs, *log_std, masks=masks_of(r))[:count]
            values = values[:, 0]
            log_probs = policy.log_prob(flatten_time(r.actions))
            entropy = losses.masked_mean(policy.entropy(), valid)
            targets, advantages = map(
                flatten_time, self._advantages(r, log_probs, values, is_old)
            )
            if c.normalize_advantages:
                advantages = losses.normalize(advantages, c.advantage_epsilon, valid)
            policy_loss = losses.policy_gradient_loss(log_probs, advantages, valid)
            value_loss = losses.masked_mean(tf.square(targets - values[:count]), valid)
            loss = policy_loss - self._setup.value(c.entropy_coef) * entropy
            loss += c.value_loss_coef * value_loss
        explained = losses.explained_variance(values[:count], targets, valid)
        norm = self._setup.step(
            self._optimizer, tape, loss, self._variables, c.grad_norm
        )
        return {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "explained_variance": explained,
            "grad_norm": norm,
        }

    def _advantages(
        self, r: Any, log_probs: tf.Tensor, values: tf.Tensor, is_old: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return value targets and advantages, [T, B] each; gradients are stopped."""
        shape = tf.shape(r.rewards)
        log_probs = tf.reshape(tf.stop_gradient(log_probs), shape)
        values = tf.reshape(tf.stop_gradient(values), [-1, shape[1]])
        c = self._config

        def corrected() -> tuple[tf.Tensor, tf.Tensor]:
            return returns.vtrace(
                log_probs - r.log_probs,
                r.rewards,
                values,
                r.terminated,
                r.truncated,
                c.gamma,
                self._largest_rho,
                self._largest_c,
                c.lam,
            )

        def uncorrected() -> tuple[tf.Tensor, tf.Tensor]:
            if c.lam == 1:  # no ratios: rounding would make them differ from 1
                targets = returns.n_step_returns(
                    r.rewards, values, r.terminated, r.truncated, c.gamma
                )
                return targets, targets - values[:-1]
            advantages = returns.gae(
                r.rewards, values, r.terminated, r.truncated, c.gamma, c.lam
            )
            return advantages + values[:-1], advantages

        return tf.cond(is_old, corrected, uncorrected)
