"""Exploration by noise on an actor's weights that lasts for an episode."""

import math
from collections.abc import Callable

import numpy as np

from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.keras_layers import LayerNorm
from xagents_ray.networks.layout import Layout

ForwardPass = Callable[[Array], list[FloatArray]]
MEMORY_UNITS = 3
"""Size of an environment's memory: the seed, 0 before an episode; the standard
deviation; and the running mean of squared action differences.
"""
_SEEDS, _DRIFT = 2**23, 1.05
_FACTOR, _NEWEST = 1.005, 0.02  # a step's deviation factor, and weight in the mean


class ParameterNoise:
    """Perturbed copies of an actor, one per environment and episode.

    Each environment adapts the standard deviation of its noise at each step, so that
    its actions differ from the actor's by `target` on average.

    Args:
        layout: layout of the actor's network.
        target: root mean square of action differences; actions range from -1 to 1.
    Source: arXiv:1706.01905, section 3, with a running mean over steps in place of one
        over a batch.
    """

    def __init__(self, layout: Layout, target: float) -> None:
        self._layout, self._target = layout, target
        # The scale and offset of layer normalization are not perturbed.
        self._names = [
            name
            for layer in layout.layers
            if not isinstance(layer, LayerNorm)
            for name in layer.shapes
        ]
        self._arrays: dict[str, FloatArray] = {}
        self._directions: dict[int, tuple[float, dict[str, FloatArray]]] = {}
        self._copies: dict[int, tuple[float, float, ForwardPass]] = {}

    def load(self, arrays: dict[str, FloatArray]) -> None:
        """Perturb these weights from now on."""
        self._arrays = arrays
        self._copies.clear()

    def begin(self, memory: Array, uniform: FloatArray) -> Array:
        """Return the memory with a new seed for each environment without one.

        Args:
            memory: float32 [B, MEMORY_UNITS], or empty before the first step.
            uniform: float32 [B] from -1 to 1, from which seeds are derived.
        """
        if not memory.size:
            memory = np.zeros((len(uniform), MEMORY_UNITS), np.float32)
            memory[:, 1:] = self._target, self._target**2
        memory = memory.copy()
        memory[:, 0] = np.where(memory[:, 0] == 0, seeds_of(uniform), memory[:, 0])
        return memory

    def actions(self, observations: Array, memory: Array) -> FloatArray:
        """Return the actions of each environment's perturbed actor, float32 [B, A]."""
        rows = [
            self._copy(env, *numbers)(observations[env : env + 1])[0]
            for env, numbers in enumerate(memory[:, :2].tolist())
        ]
        return np.concatenate(rows)

    def adapted(self, memory: Array, actions: FloatArray, means: FloatArray) -> Array:
        """Return the memory adapted to perturbed actions and the means, [B, A] each."""
        memory = memory.copy()
        squares = np.square(actions - means).mean(axis=-1)
        memory[:, 2] += np.float32(_NEWEST) * (squares - memory[:, 2])
        is_far = memory[:, 2] > self._target**2
        memory[:, 1] *= np.where(is_far, 1 / _FACTOR, _FACTOR)
        return memory

    def _copy(self, env: int, seed: float, deviation: float) -> ForwardPass:
        """Return an environment's perturbed network, within 5% of the deviation."""
        made = self._copies.get(env)
        if made is not None and made[0] == seed:
            if made[1] / _DRIFT <= deviation <= made[1] * _DRIFT:
                return made[2]
        arrays, directions = dict(self._arrays), self._direction(env, seed)
        for name in self._names:
            arrays[name] = arrays[name] + np.float32(deviation) * directions[name]
        forward = bind_network(self._layout, arrays)
        self._copies[env] = seed, deviation, forward
        return forward

    def _direction(self, env: int, seed: float) -> dict[str, FloatArray]:
        """Return an episode's standard normal noise, by the array's name."""
        made = self._directions.get(env)
        if made is not None and made[0] == seed:
            return made[1]
        generator, shapes = np.random.default_rng(int(seed)), self._layout.shapes
        noise = {
            name: generator.standard_normal(math.prod(shapes[name]), np.float32)
            for name in self._names
        }
        shaped = {name: x.reshape(shapes[name]) for name, x in noise.items()}
        self._directions[env] = seed, shaped
        return shaped


def seeds_of(uniform: FloatArray) -> FloatArray:
    """Turn numbers from -1 to 1 into seeds, 1 or more, that float32 holds exactly."""
    seeds: FloatArray = 1 + np.floor((uniform + 1) / 2 * (_SEEDS - 2))
    return seeds
