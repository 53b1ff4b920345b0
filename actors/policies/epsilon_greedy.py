"""The policy of DQN."""

from collections.abc import Sequence

import numpy as np

from xagents_ray.actors.policies.base import Actions, Policy, largest
from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.core.trajectory import Array


class EpsilonGreedyPolicy(Policy):
    """Takes the action of the largest value, with decaying probability a random one."""

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw uniform [T, B, 2]: a coin and an action for each environment."""
        return np.stack([g.random((steps, 2)) for g in generators], axis=1)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose an action for each observation, one coin each."""
        explore = noise[:, 0] < epsilon(self._config, env_steps)
        actions = (noise[:, 1] * self._spec.n_actions).astype(np.int32)
        if not explore.all():
            actions = np.where(explore, actions, self.greedy(observations))
        return Actions(actions, actions)

    def greedy(self, observations: Array) -> Array:
        """Return int32 [B] actions of the largest values."""
        return largest(self._forward(observations)[0])


def epsilon(config: DQNConfig, env_steps: int) -> float:
    """Return the probability of a random action after this many env steps."""
    part = min(1.0, env_steps / config.epsilon_decay_steps)
    return config.epsilon_start + (config.epsilon_end - config.epsilon_start) * part
