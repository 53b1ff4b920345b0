"""The policy of ACER."""

from collections.abc import Sequence

import numpy as np

from xagents_ray.actors.policies.base import (
    Actions,
    Policy,
    largest,
    sample_categorical,
)
from xagents_ray.core.trajectory import Array
from xagents_ray.networks.activations import softmax


class CategoricalPolicy(Policy):
    """Samples from a categorical policy; returns the probabilities of all actions."""

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw uniform [T, B]."""
        return np.stack([g.random(steps) for g in generators], axis=1)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Draw an action for each observation."""
        logits = self._forward(observations)[0]
        actions, _ = sample_categorical(logits, noise)
        return Actions(actions, actions, probabilities=softmax(logits))

    def greedy(self, observations: Array) -> Array:
        """Return int32 [B], the likeliest actions."""
        return largest(self._forward(observations)[0])
