"""The policy of DDPG and TD3."""

from collections.abc import Sequence

import numpy as np

from xagents_ray.actors.policies.base import Actions, Policy
from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.layout import Layout

_THETA, _DT = 0.15, 0.01


class DeterministicPolicy(Policy):
    """Adds normal noise to the actor's action; acts at random until learning starts.

    Actions are drawn, stored and learned from in [-1, 1], and scaled to the bounds of
    the environment when they are stepped.
    """

    def __init__(
        self, config: DDPGConfig | TD3Config, spec: EnvSpec, layout: Layout
    ) -> None:
        super().__init__(config, spec, layout)
        self._scale, self._random_steps = config.step_noise_coef, config.initial_size
        self._is_correlated = config.noise == "ou"

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw [T, B, 2, A]: of standard deviation 1, and uniform from -1 to 1."""
        shape = (steps, self._spec.action_units)
        draws = [
            np.stack([g.standard_normal(shape), g.uniform(-1, 1, shape)], axis=1)
            for g in generators
        ]
        return np.stack(draws, axis=1).astype(np.float32)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose an action for each observation."""
        normal, uniform = noise[:, 0], noise[:, 1]
        if self._is_correlated:
            before = self.memory if self.memory.size else np.zeros_like(normal)
            normal = self.memory = ornstein_uhlenbeck(normal, before)
        if env_steps < self._random_steps:
            actions = uniform
        else:
            means = self._forward(observations)[0]
            actions = np.clip(means + self._scale * normal, -1, 1)
        return Actions(actions, self._stepped(actions))

    def greedy(self, observations: Array) -> Array:
        """Return float32 [B, A], the actor's actions without noise."""
        return self._stepped(np.clip(self._forward(observations)[0], -1, 1))

    def _stepped(self, actions: Array) -> Array:
        part = (actions + 1) / 2
        stepped: Array = (1 - part) * self._low + part * self._high
        return np.clip(stepped, self._low, self._high)


def ornstein_uhlenbeck(normal: FloatArray, before: FloatArray) -> FloatArray:
    """Return the next step of an Ornstein-Uhlenbeck process with a sigma of 1.

    Args:
        normal: float32 [...], standard normal.
        before: float32 [...], its value before.
    Returns:
        float32 [...].
    Source: doi:10.1103/PhysRev.36.823; theta and dt are those of Stable-Baselines3.
    """
    step = np.float32(np.sqrt(_DT)) * normal
    moved: FloatArray = before * np.float32(1 - _THETA * _DT) + step
    return moved
