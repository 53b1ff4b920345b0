"""Moments of an env actor's rollouts, for the learner's normalization."""

import numpy as np

from xagents_ray.core.moments import OBSERVATION, Statistics, moments_of
from xagents_ray.core.trajectory import Array, Trajectory
from xagents_ray.settings.algorithm import AlgorithmConfig


class RolloutMoments:
    """Moments of observations and discounted returns, of valid rows only.

    Attributes:
        returns: float64 [B], sums of the rewards for learning so far, discounted; their
            variance sets the scale of rewards.
    """

    def __init__(self, config: AlgorithmConfig, n_envs: int) -> None:
        self._config = config
        self.returns: Array = np.zeros(n_envs)

    def update(self, trajectory: Trajectory) -> Statistics:
        """Return the moments of one more rollout."""
        found: Statistics = {}
        valid = trajectory.valid
        if not valid.any():
            return found
        if self._config.normalize_observations:
            found[OBSERVATION] = moments_of(trajectory.observations[:-1][valid])
        if self._config.normalize_rewards:
            found["return"] = moments_of(self._discounted(trajectory)[valid])
        return found

    def _discounted(self, trajectory: Trajectory) -> Array:
        """Return float64 [T, B], the sums of rewards up to each row."""
        sums = np.empty(trajectory.rewards.shape)
        ends = trajectory.terminated | trajectory.truncated
        for t, rewards in enumerate(trajectory.rewards):
            self.returns = self._config.gamma * self.returns + rewards
            sums[t] = self.returns
            self.returns = np.where(ends[t], 0.0, self.returns)
        return sums
