"""Actor-critic with experience replay."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from xagents_ray.algorithms.acer import ACERConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    Replayed,
    Trajectory,
    Weights,
    merge,
)
from xagents_ray.learners import importance, losses, on_policy, returns
from xagents_ray.learners.deterministic import polyak, with_target
from xagents_ray.learners.learner import Metrics, named
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.state import LearnerState
from xagents_ray.networks.layout import Layout

_METRICS = (
    "policy_loss",
    "value_loss",
    "entropy",
    "importance_ratio",
    "trust_region_bound",
    "grad_norm",
)


class ACERLearner:
    """One gradient step on each round of trajectories, and on each replayed batch.

    The network's outputs are the policy's logits and a value of each action. A round is
    learnt from as a replayed batch is: by ratios to the policy that acted, however old.

    Source: arXiv:1611.01224.
    """

    def __init__(
        self, config: ACERConfig, spec: EnvSpec, layout: Layout, seed: int
    ) -> None:
        self._config, self._spec, self._layout = config, spec, layout
        self._model, self._average = with_target(layout, seed, "policy")
        self._optimizer = make_optimizer(config, self._model.trainable_variables)
        self._stopping = tf.Variable(False, trainable=False)
        models = {"policy": self._model, "average": self._average}
        self.normalizer = Normalizer(config, spec)
        optimizers = {"optimizer": self._optimizer}
        self.state = LearnerState(models, optimizers, self.normalizer.named("policy"))
        rows = [None, None]
        parts = [
            *on_policy.signature(spec),
            tf.TensorSpec([*rows, spec.n_actions], tf.float32),
        ]
        signature = [tf.TensorSpec([None, *x.shape], x.dtype) for x in parts]
        self._phase = tf.function(self._learn, input_signature=signature)

    def update(self, batch: Sequence[Trajectory | Replayed], env_steps: int) -> Metrics:
        """Learn from one round of trajectories, then from K replayed batches."""
        t = merge([x for x in batch if isinstance(x, Trajectory)])
        width = t.rewards.shape[1]
        replayed = [_wide(x, width) for x in batch if isinstance(x, Replayed)]
        fresh = (getattr(t, name)[None] for name in Replayed._fields)
        arrays = [np.concatenate(x) for x in zip(fresh, *replayed, strict=True)]
        means, updates = self._phase(*arrays)
        return named(_METRICS, means, updates)

    def policy_weights(self) -> Weights:
        """Return the newest weights to act with, under a new version."""
        return self.state.weights("policy")

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Begin with these weights, by name: `policy/dense-0/kernel`."""
        self.state.assign(arrays)
        self._average.set_weights(self._model.get_weights())

    def stop(self) -> None:
        """Make an update in progress end after its current batch."""
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
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One step on each of K batches [K, T, B] with valid rows; metrics [6]."""
        total = tf.zeros(len(_METRICS))
        updates = tf.constant(0)
        for k in tf.range(tf.shape(rewards)[0]):
            if self._stopping:
                break
            # Even without a gradient, Adam's momentum would change the weights.
            if tf.reduce_any(valid[k]):
                seen = on_policy.all_inputs(observations[k], starts[k], self._spec)
                total += self._step(
                    self.normalizer.inputs(self._layout, seen),
                    actions[k],
                    self.normalizer.rewards(rewards[k]),
                    terminated[k],
                    truncated[k],
                    valid[k],
                    acted[k],
                )
                updates += 1
        return total / tf.cast(tf.maximum(updates, 1), tf.float32), updates

    def _step(
        self,
        inputs: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
        truncated: tf.Tensor,
        valid: tf.Tensor,
        acted: tf.Tensor,
    ) -> tf.Tensor:
        """One gradient step; inputs are [(T + 1) * B], rows [T, B]; metrics [6]."""
        c = self._config
        shape, count = tf.shape(rewards), tf.size(rewards)
        actions, weighs = (tf.reshape(x, [-1]) for x in (actions, valid))
        acted = tf.reshape(acted, [-1, acted.shape[-1]])
        average = tf.nn.softmax(self._average(inputs)[0])[:count]
        variables = self._model.trainable_variables
        with tf.GradientTape() as tape:
            logits, q_values = self._model(inputs)
            policy = tf.nn.softmax(logits)
            values = tf.reduce_sum(tf.stop_gradient(policy * q_values), axis=-1)
            policy, q_values = policy[:count], q_values[:count]
            ratios = importance.ratios(policy, acted, c.epsilon)
            taken, ratio = (
                tf.gather(x, actions, axis=-1, batch_dims=1) for x in (q_values, ratios)
            )
            targets = returns.retrace(
                tf.reshape(ratio, shape),
                rewards,
                tf.reshape(tf.stop_gradient(taken), shape),
                tf.reshape(values, [-1, shape[1]]),
                terminated,
                truncated,
                c.gamma,
            )
            errors = tf.reshape(targets, [-1]) - taken
            value_loss = 0.5 * losses.masked_mean(tf.square(errors), weighs)
            judged = tf.reshape(targets, [-1]), q_values, values[:count]
            gains, *seen = self._gains(policy, ratios, actions, judged, average)
            loss = c.value_loss_coef * value_loss - losses.masked_mean(gains, weighs)
        norm = descend(self._optimizer, tape, loss, variables, c.grad_norm)
        polyak(self._average.trainable_variables, variables, 1 - c.ema_alpha)
        gain, entropy, bound, ratio = (
            losses.masked_mean(x, weighs) for x in (*seen, ratio)
        )
        return tf.stack([-gain, value_loss, entropy, ratio, bound, norm])

    def _gains(
        self,
        policy: tf.Tensor,
        ratios: tf.Tensor,
        actions: tf.Tensor,
        judged: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        average: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return what the policy is to raise, within the trust region if there is one.

        Args:
            policy: float32 [N, n] probabilities.
            ratios: float32 [N, n].
            actions: int32 [N].
            judged: Retrace targets [N], the critic's values [N, n], their means [N].
            average: float32 [N, n], the average policy's probabilities.
        Returns:
            float32 [N], whose gradient counts; gains [N], entropies [N], and 1 [N]
            where the trust region has changed the gradient.
        """
        c = self._config
        with tf.GradientTape() as tape:
            tape.watch(policy)
            gains = importance.corrected_gain(
                policy, ratios, actions, *judged, c.importance_c, c.epsilon
            )
            entropies = importance.entropy(policy, c.epsilon)
            raised = gains + c.entropy_coef * entropies
        bound = tf.zeros_like(gains)
        if c.trust_region:
            gradient, binds = importance.project(
                tape.gradient(raised, policy), policy, average, c.delta, c.epsilon
            )
            raised = tf.reduce_sum(policy * tf.stop_gradient(gradient), axis=-1)
            bound = tf.cast(binds, tf.float32)
        return raised, gains, entropies, bound


def _wide(replayed: Replayed, width: int) -> Replayed:
    """Return batches with as many trajectories as a round that lacks or has more."""
    if replayed.rewards.shape[2] == width:
        return replayed
    columns = np.arange(width) % replayed.rewards.shape[2]
    return Replayed(*(np.take(array, columns, axis=2) for array in replayed))
