"""Trust region policy optimisation."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from xagents_ray.algorithms.trpo import TRPOConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    Trajectory,
    Weights,
    merge,
)
from xagents_ray.learners import distributions, losses, on_policy, returns, trust_region
from xagents_ray.learners.learner import Metrics, named
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.state import LearnerState
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout

_ACTOR_METRICS = ("policy_loss", "kl", "entropy", "step_fraction")
_CRITIC_METRICS = ("value_loss", "value_grad_norm")


class TRPOLearner:
    """One natural gradient step of the actor, and passes of minibatches of the critic.

    Importance ratios are to the policy that acted, however old it is; the trust region
    is about the newest policy, the step's start.

    Source: arXiv:1502.05477; advantages, arXiv:1506.02438.
    """

    def __init__(
        self,
        config: TRPOConfig,
        spec: EnvSpec,
        actor_layout: Layout,
        critic_layout: Layout,
        seed: int,
    ) -> None:
        self._config, self._spec, self._seed = config, spec, seed
        self._layouts = actor_layout, critic_layout
        self._actor = networks.build(actor_layout, seed, "actor")
        self._critic = networks.build(critic_layout, seed, "critic")
        self._variables = list(self._actor.trainable_variables)
        self._log_std = tf.Variable(tf.zeros(len(spec.action_low)), name="log_std")
        if not spec.is_discrete:
            self._variables.append(self._log_std)
        self._optimizer = make_optimizer(
            config, self._critic.trainable_variables, config.critic_lr
        )
        self._stopping = tf.Variable(False, trainable=False)
        models = {"actor": self._actor, "critic": self._critic}
        self.normalizer = Normalizer(config, spec)
        others = self.normalizer.named("actor")
        if not spec.is_discrete:
            others["actor/log_std"] = self._log_std
        optimizers = {"critic-optimizer": self._optimizer}
        self.state = LearnerState(models, optimizers, others)
        more = [tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([2], tf.int32)]
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
            seed,
        )
        names = (*_ACTOR_METRICS, *_CRITIC_METRICS)
        return named(names, means, updates)

    def policy_weights(self) -> Weights:
        """Return the newest weights to act with, under a new version."""
        return self.state.weights("actor")

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Begin with these weights, by name: `actor/dense-0/kernel`."""
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
        seed: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Both networks' learning from [T, B] rows; returns metrics [6]."""
        c = self._config
        rewards = self.normalizer.rewards(rewards)
        inputs = on_policy.all_inputs(observations, starts, self._spec)
        values = tf.reshape(self._values(inputs), [-1, tf.shape(rewards)[1]])
        advantages = returns.gae(rewards, values, terminated, truncated, c.gamma, c.lam)
        rows = tf.where(tf.reshape(valid, [-1]))[:, 0]
        acted = tf.zeros(len(_ACTOR_METRICS))
        judged = tf.zeros(len(_CRITIC_METRICS))
        updates = tf.constant(0)
        if tf.size(rows) > 0 and not self._stopping:
            learnt = [
                tf.gather(_flatten(x), rows) for x in (actions, log_probs, advantages)
            ]
            filled = _filled(rows, tf.size(valid))
            acted = self._improve_actor(tf.gather(inputs, filled), *learnt)
            targets = _flatten(advantages + values[:-1])
            judged, updates = self._improve_critic(inputs, targets, rows, seed)
            updates += 1
        return tf.concat([acted, judged], axis=0), updates

    def _policy(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return float32 [N, A], logits or means."""
        return self._actor(self.normalizer.inputs(self._layouts[0], inputs))

    def _values(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return float32 [N]."""
        return self._critic(self.normalizer.inputs(self._layouts[1], inputs))[:, 0]

    def _improve_actor(
        self,
        inputs: tf.Tensor,
        actions: tf.Tensor,
        old_log_probs: tf.Tensor,
        advantages: tf.Tensor,
    ) -> tf.Tensor:
        """One step within the trust region; returns metrics [4].

        The N rows are the first of the inputs, whose others fill up and weigh nothing:
        the networks' inputs have one size, for their kernels keep memory for each.
        """
        c = self._config
        count = tf.size(advantages)
        advantages = losses.normalize(advantages, c.advantage_epsilon)
        old, old_log_std = self._policy(inputs)[:count], tf.identity(self._log_std)

        def product(vector: tf.Tensor) -> tf.Tensor:
            some = slice(None, None, c.fvp_n_steps)
            return self._fisher(inputs[some], old[some], old_log_std, vector)

        def evaluate(parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            trust_region.assign(self._variables, parameters)
            policy = self._policy(inputs)[:count]
            gain, _ = self._gain(policy, actions, old_log_probs, advantages)
            return gain, self._kl(old, old_log_std, policy)

        with tf.GradientTape() as tape:
            policy = self._policy(inputs)[:count]
            gain, entropy = self._gain(policy, actions, old_log_probs, advantages)
        start = trust_region.flatten(self._variables)
        gradient = trust_region.flatten(tape.gradient(gain, self._variables))
        taken, kl = tf.constant(0.0), tf.constant(0.0)
        if tf.reduce_any(gradient != 0):
            step = trust_region.natural_step(
                product, gradient, c.max_kl, c.cg_iterations, c.cg_residual_tolerance
            )
            end, taken = trust_region.line_search(
                evaluate, start, step, gain, c.max_kl, c.actor_iterations
            )
            _, kl = evaluate(end)  # which leaves the network there
        return tf.stack([-gain, kl, entropy, taken])

    def _fisher(
        self,
        inputs: tf.Tensor,
        old: tf.Tensor,
        old_log_std: tf.Tensor,
        vector: tf.Tensor,
    ) -> tf.Tensor:
        """Return the Fisher matrix of the first N inputs, damped, times [P]."""

        def divergence() -> tf.Tensor:
            policy = self._policy(inputs)[: tf.shape(old)[0]]
            return self._kl(old, old_log_std, policy)

        return trust_region.fisher_vector_product(
            divergence, self._variables, vector, self._config.cg_damping
        )

    def _gain(
        self,
        policy: tf.Tensor,
        actions: tf.Tensor,
        old_log_probs: tf.Tensor,
        advantages: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return what the actor's step raises, and the mean entropy."""
        if self._spec.is_discrete:
            log_probs = distributions.categorical_log_prob(policy, actions)
            entropy = tf.reduce_mean(distributions.categorical_entropy(policy))
        else:
            log_probs = distributions.gaussian_log_prob(policy, self._log_std, actions)
            entropy = distributions.gaussian_entropy(self._log_std)
        gain = losses.surrogate_gain(log_probs, old_log_probs, advantages)
        return gain + self._config.entropy_coef * entropy, entropy

    def _kl(
        self, old: tf.Tensor, old_log_std: tf.Tensor, policy: tf.Tensor
    ) -> tf.Tensor:
        """Return the mean divergence of the policy from what it was."""
        if self._spec.is_discrete:
            return tf.reduce_mean(distributions.categorical_kl(old, policy))
        return tf.reduce_mean(
            distributions.gaussian_kl(old, old_log_std, policy, self._log_std)
        )

    def _improve_critic(
        self, inputs: tf.Tensor, targets: tf.Tensor, rows: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """All passes over the valid rows; returns metrics [2] and steps."""
        c = self._config
        count = tf.size(rows)
        size = (tf.size(targets) + c.mini_batches - 1) // c.mini_batches
        total = tf.zeros(len(_CRITIC_METRICS))
        updates = tf.constant(0)
        for i in tf.range(c.critic_iterations):
            if self._stopping:
                break
            own = tf.stack([seed[0], seed[1] * c.critic_iterations + i])
            order = tf.random.experimental.stateless_shuffle(rows, own)
            for j in tf.range(c.mini_batches):
                begin = j * count // c.mini_batches
                end = (j + 1) * count // c.mini_batches
                if begin < end:
                    batch = order[begin:end]
                    total += self._minibatch(
                        tf.gather(inputs, _filled(batch, size)),
                        tf.gather(targets, batch),
                    )
                    updates += 1
        return total / tf.cast(tf.maximum(updates, 1), tf.float32), updates

    def _minibatch(self, inputs: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """One gradient step on the first N of the inputs; returns metrics [2]."""
        c = self._config
        variables = self._critic.trainable_variables
        with tf.GradientTape() as tape:
            values = self._values(inputs)[: tf.size(targets)]
            value_loss = losses.squared(targets - values)
            loss = c.value_loss_coef * value_loss
        norm = descend(self._optimizer, tape, loss, variables, c.grad_norm)
        return tf.stack([value_loss, norm])


def _filled(rows: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Return rows, repeated from the first one on up to a size."""
    return tf.gather(rows, tf.range(size) % tf.size(rows))


def _flatten(x: tf.Tensor) -> tf.Tensor:
    """Return [T, B, ...] as [T * B, ...]."""
    return tf.reshape(x, [-1, *x.shape[2:]])
