"""What an env actor needs of a policy.

Noise comes from one generator per environment, so that which environments share
an actor changes nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, BoolArray, FloatArray, Weights
from xagents_ray.networks.forward import bind
from xagents_ray.networks.layout import Layout


class Actions(NamedTuple):
    """What a policy chose for B environments.

    Attributes:
        stored: int32 [B] or float32 [B, A], as drawn; what the learner gets.
        stepped: the same within the environment's bounds.
        log_probs: float32 [B] of `stored`, or None.
        values: float32 [B], or None.
        probabilities: float32 [B, n] of all actions, or None.
    """

    stored: Array
    stepped: Array
    log_probs: FloatArray | None = None
    values: FloatArray | None = None
    probabilities: FloatArray | None = None


class Policy(ABC):
    """Chooses actions with weights of one version.

    Args:
        config: of the algorithm.
        spec: of the environments.
        layout: of the network that acts.
    Attributes:
        memory: float32 [B, A], what noise carries from one step to the next; empty
            where each draw is independent.
    """

    def __init__(self, config: Any, spec: EnvSpec, layout: Layout) -> None:
        self._config, self._spec, self._layout = config, spec, layout
        self._low = np.asarray(spec.action_low, np.float32)
        self._high = np.asarray(spec.action_high, np.float32)
        self.memory: Array = np.zeros(0, np.float32)

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self._arrays = weights.arrays
        self._forward = bind(self._layout, weights.arrays)

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw [T, B, ...] of noise, each environment's from its own generator."""
        return np.stack([self._draw(g, steps) for g in generators], axis=1)

    @abstractmethod
    def _draw(self, generator: np.random.Generator, steps: int) -> Array:
        """Draw the noise of one environment, [T, ...]."""

    @abstractmethod
    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose actions for [B, *input_shape] with noise [B, ...]."""

    @abstractmethod
    def greedy(self, observations: Array) -> Array:
        """Return the likeliest actions, int32 [B] or float32 [B, A] within bounds."""

    def values(self, observations: Array) -> FloatArray | None:
        """Return float32 [B] values of observations, None without a critic."""
        return None

    def reset_memory(self, resets: BoolArray) -> None:
        """Restart the noise of environments that begin an episode, bool [B].

        Source: arXiv:1509.02971, algorithm 1.
        """
        if self.memory.size:
            self.memory[resets] = 0


def noise_generators(
    seed: int, first_env: int, n_envs: int, restarts: int = 0
) -> list[np.random.Generator]:
    """Return the generators of the environments' action noise.

    They depend on an environment's index among all of the run, from `first_env` on, and
    on how often their actor was restarted.
    """
    more = [restarts] if restarts else []
    envs = range(first_env, first_env + n_envs)
    return [np.random.default_rng([seed, env, *more]) for env in envs]


def largest(outputs: FloatArray) -> Array:
    """Return int32 [B], the action of the largest of [B, n] outputs."""
    return outputs.argmax(axis=-1).astype(np.int32)  # type: ignore[no-any-return]


def sample_categorical(logits: FloatArray, uniform: Array) -> tuple[Array, FloatArray]:
    """Draw from softmax(logits) by inverting its distribution function.

    Args:
        logits: float32 [B, n].
        uniform: float64 [B] in [0, 1).
    Returns:
        int32 [B] actions and float32 [B] log-probabilities.
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    cumulative = np.exp(shifted).cumsum(axis=-1)
    total = cumulative[:, -1:]
    actions = (cumulative <= uniform[:, None] * total).sum(axis=-1, dtype=np.int32)
    # Rounding may push a draw next to 1 past the last action.
    actions = np.minimum(actions, logits.shape[-1] - 1)
    chosen = shifted[np.arange(len(actions)), actions]
    return actions, chosen - np.log(total[:, 0])
