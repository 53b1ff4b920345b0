"""The base of policies with bounded continuous actions."""

import numpy as np

from xagents_ray.actors.policies.base import ActorPolicy
from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.sac import SACConfig
from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array
from xagents_ray.networks.layout import Layout


class ScaledPolicy(ActorPolicy):
    """Draws and stores actions in [-1, 1]; scales them to the bounds for stepping.

    The noise of a step is float32 [2, A]: standard normal, and uniform from -1 to 1.
    """

    scales_actions = True

    def __init__(
        self,
        config: DDPGConfig | TD3Config | SACConfig,
        spec: EnvSpec,
        layout: Layout,
    ) -> None:
        super().__init__(config, spec, layout)
        given = config.random_steps
        self._random_steps = config.initial_size if given is None else given

    def _empty_noise(self, shape: tuple[int, int]) -> Array:
        """Return an array for two numbers per component of an action."""
        return np.empty((*shape, 2, self._spec.action_units), np.float32)

    def _draw(self, generator: np.random.Generator, out: Array) -> None:
        """Draw [T, 2, A]: standard normal, and uniform from -1 to 1."""
        shape = out[:, 0].shape
        out[:, 0] = generator.standard_normal(shape)
        out[:, 1] = generator.uniform(-1, 1, shape)
