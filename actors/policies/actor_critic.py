"""The policy of A2C, PPO and TRPO."""

from collections.abc import Sequence

import numpy as np

from xagents_ray.actors.policies.base import (
    Actions,
    Policy,
    largest,
    sample_categorical,
)
from xagents_ray.core.trajectory import Array, FloatArray


class ActorCriticPolicy(Policy):
    """Samples from a categorical or a diagonal Gaussian policy; may have values."""

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw uniform [T, B], or standard normal [T, B, A] for Gaussians."""
        if self._spec.is_discrete:
            return np.stack([g.random(steps) for g in generators], axis=1)
        shape = (steps, self._spec.action_units)
        draws = [g.standard_normal(shape, dtype=np.float32) for g in generators]
        return np.stack(draws, axis=1)

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
