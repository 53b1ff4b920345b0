"""Proximal policy optimisation."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    Trajectory,
    Weights,
    merge,
)
from xagents_ray.learners import distributions, losses, on_policy, returns
from xagents_ray.learners.frames import stack_rollout
from xagents_ray.learners.learner import Metrics, named
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.state import LearnerState
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout

_METRICS = ("policy_loss", "value_loss", "entropy", "kl", "grad_norm")


class PPOLearner:
    """Several passes of minibatches over each round of trajectories.

    Log-probs and values are those of the weights that acted, however old they are.

    Source: arXiv:1707.06347.
    """

    def __init__(
        self, config: PPOConfig, spec: EnvSpec, layout: Layout, seed: int
    ) -> None:
        self._config, self._spec, self._layout, self._seed = config, spec, layout, seed
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
        floats = tf.TensorSpec([None, None], tf.float32)
        more = [floats, floats, tf.TensorSpec([2], tf.int32)]
        signature = [*on_policy.signature(spec), *more]
        self._phase = tf.function(self._learn, input_signature=signature)

    def update(self, batch: Sequence[Trajectory], env_steps: int) -> Metrics:
        """Learn from one round of trajectories."""
        t = merge(batch)
        seed = np.array([self._seed, self.state.counts["phases"]], np.int32)
        self.state.counts["phases"] += 1
        means, updates = self._phase(
            t.observations,
            t.starts,
            t.actions,
            t.rewards,
            t.terminated,
            t.truncated,
            t.valid,
            t.log_probs,
            t.values,
            seed,
        )
        return named(_METRICS, means, updates)

    def policy_weights(self) -> Weights:
        """Return the newest weights to act with, under a new version."""
        return self.state.weights("policy")

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Begin with these weights, by name: `policy/dense-0/kernel`."""
        self.state.assign(arrays)

    def stop(self) -> None:
        """Make an update in progress end after its current pass."""
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
        log_probs: tf.Tensor,
        values: tf.Tensor,
        seed: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """All passes over one round; rows are [T, B], returned are metrics [5]."""
        c = self._config
        rewards = self.normalizer.rewards(rewards)
        advantages = returns.gae(rewards, values, terminated, truncated, c.gamma, c.lam)
        flat = [
            _flatten(x)
            for x in (
                actions,
                log_probs,
                values[:-1],
                advantages,
                advantages + values[:-1],
            )
        ]
        if self._spec.is_image:
            inputs = stack_rollout(observations, starts, self._spec.stack)
        else:
            inputs = _flatten(observations[:-1])
        rows = tf.where(tf.reshape(valid, [-1]))[:, 0]
        count = tf.size(rows)
        # Inputs of convolutions have one size, whatever is valid: for each new shape
        # their kernels take memory that they keep. Rows that fill up weigh nothing.
        size = (tf.size(valid) + c.mini_batches - 1) // c.mini_batches
        total = tf.zeros(len(_METRICS))
        updates = tf.constant(0)
        for epoch in tf.range(c.ppo_epochs):
            if self._stopping:
                break
            own = tf.stack([seed[0], seed[1] * c.ppo_epochs + epoch])
            order = tf.random.experimental.stateless_shuffle(rows, own)
            for i in tf.range(c.mini_batches):
                begin = i * count // c.mini_batches
                end = (i + 1) * count // c.mini_batches
                if begin < end:
                    batch = [tf.gather(x, order[begin:end]) for x in flat]
                    picked = order[begin:end]
                    if self._spec.is_image:
                        picked = tf.gather(order, (begin + tf.range(size)) % count)
                    total += self._minibatch(tf.gather(inputs, picked), *batch)
                    updates += 1
        return total / tf.cast(tf.maximum(updates, 1), tf.float32), updates

    def _minibatch(
        self,
        inputs: tf.Tensor,
        actions: tf.Tensor,
        old_log_probs: tf.Tensor,
        old_values: tf.Tensor,
        advantages: tf.Tensor,
        targets: tf.Tensor,
    ) -> tf.Tensor:
        """One gradient step on the first N of the inputs; returns metrics [5]."""
        c = self._config
        clip = c.clip_norm * (self.state.remaining if c.clip_decay else 1.0)
        clip_value = clip if c.clip_value is None else c.clip_value
        count = tf.size(advantages)
        advantages = losses.normalize(advantages, c.advantage_epsilon)
        with tf.GradientTape() as tape:
            outputs = self._model(self.normalizer.inputs(self._layout, inputs))
            policy, values = (x[:count] for x in outputs)
            if self._spec.is_discrete:
                log_probs = distributions.categorical_log_prob(policy, actions)
                entropy = tf.reduce_mean(distributions.categorical_entropy(policy))
            else:
                log_probs = distributions.gaussian_log_prob(
                    policy, self._log_std, actions
                )
                entropy = distributions.gaussian_entropy(self._log_std)
            policy_loss = losses.clipped_policy_loss(
                log_probs, old_log_probs, advantages, clip
            )
            if c.clip_value == 0:
                value_loss = 0.5 * losses.squared(targets - values[:, 0])
            else:
                value_loss = losses.clipped_value_loss(
                    values[:, 0], old_values, targets, clip_value
                )
            loss = policy_loss - c.entropy_coef * entropy
            loss += c.value_loss_coef * value_loss
        norm = descend(self._optimizer, tape, loss, self._variables, c.grad_norm)
        kl = tf.reduce_mean(old_log_probs - log_probs)
        return tf.stack([policy_loss, value_loss, entropy, kl, norm])


def _flatten(x: tf.Tensor) -> tf.Tensor:
    """Return [T, B, ...] as [T * B, ...]."""
    return tf.reshape(x, [-1, *x.shape[2:]])
