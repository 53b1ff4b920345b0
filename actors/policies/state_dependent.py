"""State-dependent exploration (gSDE): noise that lasts for several steps."""

import math

import numpy as np

from xagents_ray.actors.policies.parameter_noise import seeds_of
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.state_dependent import with_drawn_noise

SEED_UNITS = 2
"""Size of an environment's memory: the seed of its matrix, 0 before an episode, and the
number of steps that used the matrix.
"""


class StateDependentNoise:
    """Standard normal exploration matrices, one per environment.

    Args:
        layout: network layout of a policy with the setting `uses_sde`.
        steps: maximum number of an episode's steps that use one matrix.
    Attributes:
        layout: layout of the network that takes the matrices as its noise.
        output: index of the output that holds the noise on actions; see `pop`.
    Source: arXiv:2005.05719, section 3.
    """

    def __init__(self, layout: Layout, steps: int) -> None:
        self.layout, self.output = with_drawn_noise(layout)
        self._steps, self._units = steps, self.layout.noise_units
        self._seeds: Array = np.zeros(0, np.float32)
        self._matrices: FloatArray = np.zeros((0, self._units), np.float32)

    def begin(self, memory: Array, uniform: FloatArray) -> Array:
        """Return the memory of a step, with new seeds where they are due.

        Args:
            memory: float32 [B, SEED_UNITS] after the previous step, or empty.
            uniform: float32 [B] from -1 to 1, from which seeds are derived.
        """
        if not memory.size:
            memory = np.zeros((len(uniform), SEED_UNITS), np.float32)
        seeds, steps = memory.T
        is_due = (seeds == 0) | (steps >= self._steps)
        seeds = np.where(is_due, seeds_of(uniform), seeds)
        steps = np.where(is_due, 1, steps + 1)
        return np.stack([seeds, steps], axis=-1).astype(np.float32)

    def matrices(self, memory: Array) -> FloatArray:
        """Return each environment's matrix [L, A] of L features, float32 [B, L * A]."""
        seeds = memory[:, 0]
        if len(seeds) != len(self._seeds):
            self._seeds = np.zeros_like(seeds)
            self._matrices = np.zeros((len(seeds), self._units), np.float32)
        for env in np.flatnonzero(seeds != self._seeds):
            generator = np.random.default_rng(int(seeds[env]))
            generator.standard_normal(out=self._matrices[env], dtype=np.float32)
        self._seeds = seeds.copy()
        return self._matrices

    def pop(self, outputs: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Remove the noise from the network's outputs and return it.

        Returns:
            The log standard deviations and the noise in units of the deviations, both
            float32 [B, A].
        """
        log_std, normal = np.split(outputs.pop(self.output), 2, axis=-1)
        return log_std, normal


def gaussian_log_probs(normal: FloatArray, log_std: FloatArray) -> FloatArray:
    """Return log-densities float32 [B] of noise [B, A] in units of its deviations."""
    each = np.square(normal) / 2 + log_std + np.float32(math.log(2 * math.pi) / 2)
    log_probs: FloatArray = -each.sum(axis=-1)
    return log_probs
