"""What an env actor needs of a policy.

Noise comes from one generator per environment, so that which environments share
an actor changes nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xagents_ray.actors.policies.state_dependent import UNITS, StateDependentNoise
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, BoolArray, FloatArray, Weights
from xagents_ray.networks.forward import bind
from xagents_ray.networks.layout import Layout


class Actions(NamedTuple):
    """What a policy chose for B environments.

    Attributes:
        stored: int32 [B] or [B, P], or float32 [B, A], as drawn; what the learner gets.
        stepped: the same within the environment's bounds.
        logits: float32 [B, n] that `stored` was drawn from, or None; of several actions
            at once side by side.
        values: float32 [B], or None.
        log_probs: float32 [B] of `stored`, or None where `Policy.log_probs` finds them.
    """

    stored: Array
    stepped: Array
    logits: FloatArray | None = None
    values: FloatArray | None = None
    log_probs: FloatArray | None = None

    @classmethod
    def joined(cls, rows: Sequence["Actions"]) -> "Actions":
        """Return T rows as one, with arrays [T, B, ...]."""
        # np.array takes a quarter of the time of np.stack.
        columns = zip(*rows, strict=True)
        joined: list[Any] = [None if x[0] is None else np.array(x) for x in columns]
        return cls(*joined)


class Policy(ABC):
    """Chooses actions with weights of one version.

    Args:
        config: of the algorithm.
        spec: of the environments.
        layout: of the network that acts.
    Attributes:
        memory: float32 [B, memory_units], what noise carries from one step to the
            next; empty where each draw is independent.
        memory_units: numbers of one environment's memory.
        places: float64 [B], of the environments among all of a run, from 0 to 1; None
            outside of training.
        scales_actions: its network's actions are from -1 to 1, the bounds of the
            environment.
        squashes_actions: it takes the tanh of its network's means before that.
    """

    scales_actions: ClassVar[bool] = False
    squashes_actions: ClassVar[bool] = False

    def __init__(self, config: Any, spec: EnvSpec, layout: Layout) -> None:
        self._config, self._spec, self._layout = config, spec, layout
        self._low = np.asarray(spec.action_low, np.float32)
        self._high = np.asarray(spec.action_high, np.float32)
        self.memory: Array = np.zeros(0, np.float32)
        self.memory_units = spec.action_units
        self.places: Array | None = None
        self._sde: StateDependentNoise | None = None
        if config.uses_sde:
            self._sde = StateDependentNoise(layout, config.sde_steps)
            self._layout, self.memory_units = self._sde.layout, UNITS

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self._arrays = weights.arrays
        self._forward = bind(self._layout, weights.arrays)

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw [T, B, ...] of noise, each environment's from its own generator."""
        drawn = self._empty_noise((len(generators), steps))
        for generator, out in zip(generators, drawn, strict=True):
            self._draw(generator, out)
        return np.ascontiguousarray(drawn.swapaxes(0, 1))

    def _empty_noise(self, shape: tuple[int, int]) -> Array:
        """Return an array for what is drawn in steps of environments, [B, T, ...]."""
        return np.empty(shape)

    @abstractmethod
    def _draw(self, generator: np.random.Generator, out: Array) -> None:
        """Draw the noise of one environment, [T, ...]."""

    @abstractmethod
    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose actions for [B, *input_shape] with noise [B, ...]."""

    @abstractmethod
    def greedy(self, observations: Array) -> Array:
        """Return the likeliest actions.

        int32 [B] or [B, P], or float32 [B, A] within bounds.
        """

    def log_probs(self, rows: Actions, noise: Array) -> FloatArray | None:
        """Return float32 [T, B] of what was drawn in T rows, None if nobody needs it.

        `rows` has arrays [T, B, ...]; `noise` is what they were chosen with.
        """
        return None

    def probabilities(self, rows: Actions) -> FloatArray | None:
        """Return float32 [T, B, n] of all actions, None if nobody needs them."""
        return None

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


def split_parts(logits: FloatArray, sizes: Sequence[int]) -> list[FloatArray]:
    """Return the logits of several actions at once, [..., n] of each."""
    ends = np.cumsum(sizes[:-1])
    return np.split(logits, ends, axis=-1)


def largest(outputs: FloatArray) -> Array:
    """Return int32 [B], the action of the largest of [B, n] outputs."""
    return outputs.argmax(axis=-1).astype(np.int32)  # type: ignore[no-any-return]


def sample_categorical(logits: FloatArray, uniform: Array) -> Array:
    """Draw int32 [B] from softmax(logits) by inverting its distribution function.

    From float32 [B, n] and float64 [B] in [0, 1).
    """
    cumulative = _exponentials(logits)[1]
    drawn = uniform[:, None] * cumulative[:, -1:]
    # Without the last action, rounding can't push a draw next to 1 past it.
    below: BoolArray = cumulative[:, :-1] <= drawn
    actions: Array = below.sum(axis=-1, dtype=np.int32)
    return actions


def categorical_log_probs(logits: FloatArray, actions: Array) -> FloatArray:
    """Return float32 [...] log-probabilities of actions [...] by logits [..., n]."""
    shifted, cumulative = _exponentials(logits)
    flat = shifted.reshape(-1, logits.shape[-1])
    chosen: FloatArray = flat[np.arange(len(flat)), actions.ravel()]
    return chosen.reshape(actions.shape) - np.log(cumulative[..., -1])


def _exponentials(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return logits less the largest one, and the sums of exponentials up to each."""
    shifted = logits - np.maximum.reduce(logits, axis=-1, keepdims=True)
    return shifted, np.add.accumulate(np.exp(shifted), axis=-1)
