"""Soft actor-critic."""

import math

import tensorflow as tf

from xagents_ray.algorithms.sac import LOG_STD_BOUNDS, SACConfig
from xagents_ray.core.trajectory import Transitions
from xagents_ray.learners.actor_and_critics import (
    ActorAndCritics,
    PolicyLoss,
    action_values,
    least_values,
)
from xagents_ray.learners.math.distributions import SquashedGaussian
from xagents_ray.learners.math.noise import normal_noise
from xagents_ray.learners.metrics import (
    AlgorithmOutputs,
    Means,
    add_metrics,
    add_metrics_if,
)
from xagents_ray.learners.optimizer import update_targets
from xagents_ray.learners.priorities import sampled_batches
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import Phase


class SAC:
    """Maximizes returns and entropy, with the smaller of two critics' values.

    With more critics, targets use a random two, and the policy maximizes the mean of
    all. By default, it is then updated once per env step, however many critic updates
    there are.

    Source: arXiv:1812.05905; more critics, arXiv:2101.05982.
    """

    def __init__(self, setup: LearnerSetup[SACConfig]) -> None:
        config = setup.config
        self._config, self._setup = config, setup
        self.data = sampled_batches(config)
        self._networks = ActorAndCritics(setup, actor_target=False)
        self._updates = setup.counter("updates")
        self._learns_alpha = math.isnan(config.fixed_alpha)
        if self._learns_alpha:
            self._log_alpha = setup.variable("log-alpha", 0.0)
            own = [self._log_alpha]
            self._alpha_optimizer = setup.optimizer(own, "alpha-optimizer")
        target = config.target_entropy
        self._target_entropy = -setup.spec.action_units if target is None else target

    def learn(self, batches: Transitions, phase: Phase) -> AlgorithmOutputs:
        """Update all networks, and alpha, on each of K minibatches."""
        return self._networks.learn(
            batches,
            phase,
            self._value_targets,
            self._update_policy,
            "entropy",
            "alpha",
        )

    def _value_targets(self, batch: Transitions, next_obs: tf.Tensor) -> tf.Tensor:
        """Return the soft value targets of all critics, float32 [N]."""
        actions, log_probs = self._drawn(next_obs, 0)
        values = self._networks.target_values(next_obs, actions, self._updates)
        soft_values = values - self._alpha() * log_probs
        rewards = batch.rewards
        if batch.log_probs is not None:  # of the steps between
            rewards -= self._alpha() * batch.log_probs
        return rewards + batch.discounts * soft_values

    def _update_policy(self, obs: tf.Tensor, metrics: Means) -> Means:
        period = self._config.actor_period
        if period == 1:
            metrics = add_metrics(metrics, self._update_actor(obs))
        else:
            is_due = (self._updates + 1) % period == 0
            metrics = add_metrics_if(is_due, lambda: self._update_actor(obs), metrics)
        update_targets(self._setup.targets, self._config.tau)
        self._updates.assign_add(1)
        return metrics

    def _update_actor(self, obs: tf.Tensor) -> dict[str, tf.Tensor]:
        """Update the actor and alpha on observations [N, D]; return metrics."""
        own = self._networks.update_actor(obs, self._policy_loss)
        if self._learns_alpha:
            # Of the loss -log(alpha) * (log_prob + target), as in the authors' code.
            gradient = own["entropy"] - self._target_entropy
            self._alpha_optimizer.apply([gradient], [self._log_alpha])
        return own

    def _policy_loss(self, obs: tf.Tensor) -> PolicyLoss:
        """Return the actor's loss, with its gradient through the actions, and metrics.

        Source: arXiv:1812.05905, eq. 9.
        """
        actions, log_probs = self._drawn(obs, 1)
        alpha, log_prob = self._alpha(), tf.reduce_mean(log_probs)
        critics = self._networks.critics
        if len(critics) > 2:  # as in REDQ, arXiv:2101.05982, algorithm 1
            values = tf.add_n([action_values(x, obs, actions) for x in critics])
            values /= len(critics)
        else:
            values = least_values(critics, obs, actions)
        loss = alpha * log_prob - tf.reduce_mean(values)
        return loss, {"entropy": -log_prob, "alpha": alpha}

    def _drawn(self, obs: tf.Tensor, which: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Sample actions [N, A] for observations [N, D], with log-densities [N].

        `which` is the index of the draw in its update, 0 or 1.
        """
        means, log_stds = self._networks.actor(obs)
        log_stds = tf.clip_by_value(log_stds, *LOG_STD_BOUNDS)
        draw = 2 * self._updates + which
        noise = normal_noise(self._setup.seed, draw, tf.shape(means))
        return SquashedGaussian(means, log_stds).actions_of(noise)

    def _alpha(self) -> tf.Tensor:
        """Return the entropy coefficient, float32 []."""
        if self._learns_alpha:
            return tf.exp(self._log_alpha)
        return tf.constant(self._config.fixed_alpha)
