"""Advantage actor-critic."""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from xagents_ray.algorithms.a2c import A2CConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    Trajectory,
    Weights,
    merge,
)
from xagents_ray.learners import distributions, losses, on_policy, returns
from xagents_ray.learners.learner import Metrics, named
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.state import LearnerState
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout

_METRICS = ("policy_loss", "value_loss", "entropy", "grad_norm")


class A2CLearner:
    """One gradient step on each round of trajectories.

    Where weights older than the newest acted, V-trace corrects for it.

    Source: arXiv:1602.01783, without its asynchrony; V-trace, arXiv:1802.01561.
    """

    def __init__(
        self, config: A2CConfig, spec: EnvSpec, layout: Layout, seed: int
    ) -> None:
        self._config, self._spec, self._layout = config, spec, layout
        self._model = networks.build(layout, seed, "policy")
        self._variables = list(self._model.trainable_variables)
        self._log_std = tf.Variable(tf.zeros(len(spec.action_low)), name="log_std")
        if not spec.is_discrete:
            self._variables.append(self._log_std)
        self._optimizer = make_optimizer(config, self._variables)
        self._stopping = tf.Variable(False, trainable=False)
        self.normalizer = Normalizer(config, spec)
        others = self.normalizer.named("policy")
        if not spec.is_discrete:
            others["policy/log_std"] = self._log_std
        optimizers = {"optimizer": self._optimizer}
        self.state = LearnerState({"policy": self._model}, optimizers, others)
        more = [tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([], tf.bool)]
        signature = [*on_policy.signature(spec), *more]
        self._phase = tf.function(self._learn, input_signature=signature)

    def update(self, batch: Sequence[Trajectory], env_steps: int) -> Metrics:
        """Learn from one round of trajectories."""
        t = merge(batch)  # its version is the oldest
        lags = t.weights_version < self.state.counts["version"]
        means, updates = self._phase(
            t.observations,
            t.starts,
            t.actions,
            t.rewards,
            t.terminated,
            t.truncated,
            t.valid,
            t.log_probs,
            lags,
        )
        return named(_METRICS, means, updates)

    def policy_weights(self) -> Weights:
        """Return the newest weights to act with, under a new version."""
        return self.state.weights("policy")

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Begin with these weights, by name: `policy/dense-0/kernel`."""
        self.state.assign(arrays)

    def stop(self) -> None:
        """Make the next updates do nothing: one is a single step."""
        self._stopping.assign(True)

    def _learn(
        self,
        observations: tf.Tensor,
        starts: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
        truncated: tf.Tensor,
        valid: tf.Tensor,
        acted: tf.Tensor,
        lags: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One step on [T, B] rows, none if none is valid; returns metrics [4].

        `acted` are log-probs under the policy that acted; it `lags` behind the newest.
        """
        means = tf.zeros(len(_METRICS))
        # Even without a gradient, Adam's momentum would change the weights.
        learns = tf.reduce_any(valid) & ~self._stopping
        if learns:
            seen = on_policy.all_inputs(observations, starts, self._spec)
            means = self._step(
                self.normalizer.inputs(self._layout, seen),
                actions,
                self.normalizer.rewards(rewards),
                terminated,
                truncated,
                valid,
                acted,
                lags,
            )
        return means, tf.cast(learns, tf.int32)

    def _step(
        self,
        inputs: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
        truncated: tf.Tensor,
        valid: tf.Tensor,
        acted: tf.Tensor,
        lags: tf.Tensor,
    ) -> tf.Tensor:
        """One gradient step; inputs are [(T + 1) * B], rows [T, B]; metrics [4]."""
        c = self._config
        count = tf.size(rewards)
        actions = tf.reshape(actions, [-1, *actions.shape[2:]])
        weighs = tf.reshape(valid, [-1])
        with tf.GradientTape() as tape:
            # All rows at once, whatever is valid: inputs of one shape, so that the
            # memory of the network's kernels stays level.
            policy, values = self._model(inputs)
            policy, values = policy[:count], values[:, 0]
            if self._spec.is_discrete:
                log_probs = distributions.categorical_log_prob(policy, actions)
                entropies = distributions.categorical_entropy(policy)
                entropy = losses.masked_mean(entropies, weighs)
            else:
                log_probs = distributions.gaussian_log_prob(
                    policy, self._log_std, actions
                )
                entropy = distributions.gaussian_entropy(self._log_std)
            judged = self._judge(
                tf.reshape(tf.stop_gradient(log_probs), tf.shape(acted)) - acted,
                rewards,
                tf.reshape(tf.stop_gradient(values), [-1, tf.shape(rewards)[1]]),
                terminated,
                truncated,
                lags,
            )
            targets, advantages = (tf.reshape(x, [-1]) for x in judged)
            policy_loss = losses.policy_gradient_loss(log_probs, advantages, weighs)
            value_loss = losses.masked_mean(tf.square(targets - values[:count]), weighs)
            loss = policy_loss - c.entropy_coef * entropy
            loss += c.value_loss_coef * value_loss
        norm = descend(self._optimizer, tape, loss, self._variables, c.grad_norm)
        return tf.stack([policy_loss, value_loss, entropy, norm])

    def _judge(
        self,
        log_ratios: tf.Tensor,
        rewards: tf.Tensor,
        values: tf.Tensor,
        terminated: tf.Tensor,
        truncated: tf.Tensor,
        lags: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return what values are to be, and what actions were worth beyond; [T, B]."""
        rows = rewards, values, terminated, truncated, self._config.gamma
        if lags:
            targets, advantages = returns.vtrace(log_ratios, *rows)
        else:  # no ratios, which rounding keeps from being 1
            targets = returns.n_step(*rows)
            advantages = targets - values[:-1]
        return targets, advantages
