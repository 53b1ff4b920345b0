"""The policy of SAC."""

import numpy as np

from xagents_ray.actors.policies.base import Actions
from xagents_ray.actors.policies.scaled import ScaledPolicy
from xagents_ray.algorithms.sac import LOG_STD_BOUNDS
from xagents_ray.core.trajectory import Array


class SquashedGaussianPolicy(ScaledPolicy):
    """Draws from a Gaussian squashed by tanh; its first actions are random.

    Source: arXiv:1812.05905, appendix C.
    """

    squashes_actions = True

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Draw an action for each observation."""
        normal, uniform = noise[:, 0], noise[:, 1]
        if env_steps < self._random_steps:
            actions = uniform
        else:
            if self._sde is None:
                means, log_stds = self._forward(observations)
            else:
                self.memory = self._sde.begin(self.memory, uniform[:, 0])
                matrices = self._sde.matrices(self.memory)
                outputs = self._forward(observations, matrices)
                log_stds, normal = self._sde.pop(outputs)
                [means] = outputs
            deviations = np.exp(np.clip(log_stds, *LOG_STD_BOUNDS))
            actions = np.tanh(means + deviations * normal)
        return Actions(actions, self._to_bounds(actions))

    def greedy(self, observations: Array) -> Array:
        """Return the squashed means, float32 [B, A]."""
        return self._to_bounds(np.tanh(self._forward(observations)[0]))
