"""The policy of SAC."""

import math

import numpy as np

from xagents_ray.actors.policies.base import Actions
from xagents_ray.actors.policies.scaled import ScaledPolicy
from xagents_ray.actors.policies.state_dependent import gaussian_log_probs
from xagents_ray.algorithms.sac import LOG_STD_BOUNDS, SACConfig
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.layout import Layout


class SquashedGaussianPolicy(ScaledPolicy):
    """Draws from a Gaussian squashed by tanh; its first actions are random.

    Source: arXiv:1812.05905, appendix C.
    """

    squashes_actions = True

    def __init__(self, config: SACConfig, spec: EnvSpec, layout: Layout) -> None:
        super().__init__(config, spec, layout)
        replay = config.replay
        self._has_log_probs = replay is not None and replay.sums_log_probs

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Draw an action for each observation."""
        normal, uniform = noise[:, 0], noise[:, 1]
        log_probs: FloatArray | None = None
        if env_steps < self._random_steps:
            actions = uniform
            if self._has_log_probs:
                log_prob = -self._spec.action_units * math.log(2)
                log_probs = np.full(len(uniform), log_prob, np.float32)
        else:
            if self._sde is None:
                means, log_stds = self._forward(observations)
            else:
                self.memory = self._sde.begin(self.memory, uniform[:, 0])
                matrices = self._sde.matrices(self.memory)
                outputs = self._forward(observations, matrices)
                log_stds, normal = self._sde.pop(outputs)
                [means] = outputs
            log_stds = np.clip(log_stds, *LOG_STD_BOUNDS)
            drawn = means + np.exp(log_stds) * normal
            actions = np.tanh(drawn)
            if self._has_log_probs:
                log_probs = squashed_log_probs(drawn, normal, log_stds)
        return Actions(actions, self._to_bounds(actions), log_probs=log_probs)

    def log_probs(self, rows: Actions, noise: Array) -> FloatArray | None:
        """Return log-densities of drawn actions, float32 [T, B]; None if unused."""
        return rows.log_probs

    def greedy(self, observations: Array) -> Array:
        """Return the squashed means, float32 [B, A]."""
        return self._to_bounds(np.tanh(self._forward(observations)[0]))


def squashed_log_probs(
    drawn: FloatArray, normal: FloatArray, log_stds: FloatArray
) -> FloatArray:
    """Return log-densities float32 [B] of the tanh of normal variables.

    Args:
        drawn: values of the normal variables, float32 [B, A].
        normal: the same in units of their deviations from their means, float32 [B, A].
        log_stds: logarithms of their standard deviations, float32 [B, A].
    Source: arXiv:1812.05905, appendix C.
    """
    # A stable log(1 - tanh(x)^2), which would be log(0) for a large x.
    softplus = np.logaddexp(np.float32(0), -2 * drawn)
    slope = 2 * (np.float32(math.log(2)) - drawn - softplus)
    log_probs: FloatArray = gaussian_log_probs(normal, log_stds) - slope.sum(axis=-1)
    return log_probs
