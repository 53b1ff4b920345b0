"""REINFORCE: loss and step."""

import tensorflow as tf

from own_algorithm.algorithm import ReinforceConfig
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.learners import frames
from xagents_ray.learners.math import losses, returns
from xagents_ray.learners.metrics import (
    AlgorithmOutputs,
    add_metrics,
    no_means,
    update_count,
)
from xagents_ray.learners.optimizer import gradient_step
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import ROLLOUT, Phase, flatten_time


class Reinforce:
    """One gradient step on each round of trajectories, without a critic.

    What an episode earns after the end of the rollout counts as 0.

    Source: doi:10.1007/BF00992696.
    """

    data = ROLLOUT

    def __init__(self, setup: LearnerSetup[ReinforceConfig]) -> None:
        self._config, self._setup = setup.config, setup
        self._model = setup.network(setup.layouts[0], "policy")
        self._head = setup.policy_head("policy")
        more = self._head.variables.values()
        self._variables = [*self._model.trainable_variables, *more]
        self._optimizer = setup.optimizer(self._variables)

    def learn(self, rollout: Trajectory, phase: Phase) -> AlgorithmOutputs:
        """Take one step on [T, B] rows, none if none is valid."""
        metrics = no_means("policy_loss", "entropy", "grad_norm")
        if tf.reduce_any(rollout.valid) & ~self._setup.stopping:
            metrics = add_metrics(metrics, self._update(rollout))
        return AlgorithmOutputs(metrics, update_count(metrics))

    def _update(self, r: Trajectory) -> dict[str, tf.Tensor]:
        c, count, valid = self._config, tf.size(r.rewards), flatten_time(r.valid)
        no_values = tf.zeros_like(r.values)
        rows = r.rewards, no_values, r.terminated, r.truncated, c.gamma
        advantages = flatten_time(returns.n_step_returns(*rows))
        if c.baseline:
            advantages -= losses.masked_mean(advantages, valid)
        inputs = frames.rollout_inputs(r.observations, r.starts, self._setup.spec)
        with tf.GradientTape() as tape:
            policy = self._head(self._model(self._setup.inputs(inputs))[:count])
            log_probs = policy.log_prob(flatten_time(r.actions))
            policy_loss = losses.policy_gradient_loss(log_probs, advantages, valid)
            entropy = losses.masked_mean(policy.entropy(), valid)
            loss = policy_loss - c.entropy_coef * entropy
        norm = gradient_step(self._optimizer, tape, loss, self._variables, c.grad_norm)
        return {"policy_loss": policy_loss, "entropy": entropy, "grad_norm": norm}
