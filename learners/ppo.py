"""Proximal policy optimization."""

from typing import NamedTuple

import tensorflow as tf

from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.learners import frames
from xagents_ray.learners.math import losses, returns
from xagents_ray.learners.math.distributions import PolicyHead
from xagents_ray.learners.metrics import Means, added, no_means
from xagents_ray.learners.minibatches import update_in_passes
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.setup import LearnerSetup, counter
from xagents_ray.learners.tensors import Phase, Rollout, flatten


class Samples(NamedTuple):
    """Rows of a rollout, [N, ...]."""

    actions: tf.Tensor
    behavior_log_probs: tf.Tensor
    behavior_values: tf.Tensor
    advantages: tf.Tensor
    targets: tf.Tensor


class PPO:
    """Several passes of minibatches over each round of trajectories.

    Log-probs and values are those of the weights that acted, however old they are.

    Source: arXiv:1707.06347.
    """

    data = Rollout
    targets = ()

    def __init__(self, setup: LearnerSetup[PPOConfig]) -> None:
        self._config, self._setup = setup.config, setup
        self._model = setup.network(setup.layouts[0], "policy")
        self._head = PolicyHead(setup.spec)
        log_std = self._head.variables
        self._variables = [*self._model.trainable_variables, *log_std.values()]
        self._optimizer = make_optimizer(setup.config, self._variables)
        self._phases = counter()
        self.models = {"policy": self._model}
        self.optimizers = {"optimizer": self._optimizer}
        self.variables = {f"policy/{k}": v for k, v in log_std.items()}
        self.variables["count/phases"] = self._phases

    def learn(self, rollout: Rollout, phase: Phase) -> tuple[Means, tf.Tensor]:
        """Make all passes over one round."""
        c = self._config
        clip = c.clip_norm * (phase.remaining if c.clip_decay else 1.0)
        samples, inputs = self._samples(rollout)

        def update(rows: tf.Tensor, valid: tf.Tensor) -> dict[str, tf.Tensor]:
            batch = Samples(*(tf.gather(x, rows) for x in samples))
            return self._update(tf.gather(inputs, rows), batch, valid, clip)

        metrics = no_means("policy_loss", "value_loss", "entropy", "kl", "grad_norm")
        valid, passes, parts = flatten(rollout.valid), c.ppo_epochs, c.mini_batches
        metrics = update_in_passes(
            update, valid, metrics, passes, parts, self._phases, self._setup
        )
        self._phases.assign_add(1)
        return metrics, added(metrics)

    def _samples(self, r: Rollout) -> tuple[Samples, tf.Tensor]:
        """Return the rows to learn from and what the network reads at each."""
        c, values = self._config, r.values[:-1]
        advantages = returns.gae(
            r.rewards, r.values, r.terminated, r.truncated, c.gamma, c.lam
        )
        rows = r.actions, r.behavior_log_probs, values, advantages, advantages + values
        inputs = frames.rollout_inputs(r.observations, r.starts, self._setup.spec)
        return Samples(*map(flatten, rows)), inputs

    def _update(
        self, inputs: tf.Tensor, batch: Samples, valid: tf.Tensor, clip: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Take one gradient step on the valid samples, bool [N]."""
        c = self._config
        clip_value = clip if c.clip_value is None else c.clip_value
        advantages = losses.normalize(batch.advantages, c.advantage_epsilon, valid)
        with tf.GradientTape() as tape:
            outputs, values = self._model(self._setup.inputs(inputs))
            policy, values = self._head(outputs), values[:, 0]
            log_probs = policy.log_prob(batch.actions)
            entropy = losses.masked_mean(policy.entropy(), valid)
            policy_loss = losses.clipped_policy_loss(
                log_probs, batch.behavior_log_probs, advantages, clip, valid
            )
            if c.clip_value == 0:
                errors = tf.square(batch.targets - values)
                value_loss = 0.5 * losses.masked_mean(errors, valid)
            else:
                value_loss = losses.clipped_value_loss(
                    values, batch.behavior_values, batch.targets, clip_value, valid
                )
            loss = policy_loss - c.entropy_coef * entropy
            loss += c.value_loss_coef * value_loss
        norm = descend(self._optimizer, tape, loss, self._variables, c.grad_norm)
        return {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": losses.masked_mean(batch.behavior_log_probs - log_probs, valid),
            "grad_norm": norm,
        }
