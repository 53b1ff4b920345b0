"""The policies of A2C, PPO and TRPO, and of ACER."""

import numpy as np

from xagents_ray.actors.policies.base import (
    Actions,
    Policy,
    largest,
    sample_categorical,
)
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.activations import softmax


class ActorCriticPolicy(Policy):
    """Samples from a categorical or a diagonal Gaussian policy; may have values."""

    def _draw(self, generator: np.random.Generator, steps: int) -> Array:
        """Draw uniform [T], or standard normal [T, A] for Gaussians."""
        if self._spec.is_discrete:
            return generator.random(steps)
        shape = (steps, self._spec.action_units)
        return generator.standard_normal(shape, dtype=np.float32)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Draw an action for each observation."""
        outputs, *more = self._forward(observations)
        values = more[0][:, 0] if more else None
        if self._spec.is_discrete:
            actions, log_probs = sample_categorical(outputs, noise)
            return Actions(actions, actions, log_probs, values)
        log_std = self._arrays["log_std"]
        raw = outputs + np.exp(log_std) * noise
        log_probs = -(np.square(noise) + np.log(2 * np.pi)).sum(-1) / 2
        log_probs = (log_probs - log_std.sum()).astype(np.float32)
        stepped = np.clip(raw, self._low, self._high)
        return Actions(raw, stepped, log_probs, values)

    def greedy(self, observations: Array) -> Array:
        """Return the largest logits' actions, or the means within bounds."""
        outputs = self._forward(observations)[0]
        if self._spec.is_discrete:
            return largest(outputs)
        return np.clip(outputs, self._low, self._high)

    def values(self, observations: Array) -> FloatArray | None:
        """Return float32 [B] values, None when the network has none."""
        _, *more = self._forward(observations)
        return more[0][:, 0] if more else None


class CategoricalPolicy(Policy):
    """Samples from a categorical policy; returns the probabilities of all actions."""

    def _draw(self, generator: np.random.Generator, steps: int) -> Array:
        """Draw uniform [T]."""
        return generator.random(steps)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Draw an action for each observation."""
        logits = self._forward(observations)[0]
        actions, _ = sample_categorical(logits, noise)
        return Actions(actions, actions, probabilities=softmax(logits))

    def greedy(self, observations: Array) -> Array:
        """Return int32 [B], the likeliest actions."""
        return largest(self._forward(observations)[0])
