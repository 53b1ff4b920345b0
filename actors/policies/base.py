"""The interface that an env actor expects of a policy.

Each environment has its own noise generator, so results don't depend on which
environments share an actor.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xagents_ray.actors.policies.served import ServedNetwork
from xagents_ray.actors.policies.state_dependent import SEED_UNITS, StateDependentNoise
from xagents_ray.algorithms.state_dependent import noise_of
from xagents_ray.core.spec import FORBIDDEN, EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    FloatArray,
    Observations,
    Weights,
    arrays_of,
)
from xagents_ray.networks.forward import bind_network
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx_trunk import OnnxTrunk, is_installed


class Actions(NamedTuple):
    """The actions that a policy chose for B environments.

    Attributes:
        stored: actions as drawn, for the learner: int32 [B] or [B, P], or float32 [B,
            A].
        stepped: actions for the environment, within its bounds.
        logits: float32 [B, n] from which `stored` was drawn, or None; those of several
            actions per step are concatenated.
        values: float32 [B] values of the observations, or None.
        log_probs: float32 [B] log-probabilities of `stored`, or None if
            `Policy.log_probs` computes them.
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


class ActorPolicy(ABC):
    """Chooses actions with weights of one version.

    Args:
        config: settings of the algorithm.
        spec: spec of the environments.
        layout: layout of the network that acts.
    Attributes:
        memory: float32 [B, memory_units], the state of noise that lasts several steps;
            empty if each draw is independent.
        memory_units: size of one environment's memory.
        network_noise: float32 [B, noise_units], the noise on the network's weights in a
            rollout; None if its layers have none, and outside of training.
        action_masks: bool [B, action_units], the actions that the observations allow;
            None if all are allowed.
        recurrent_state: float32 [B, state_units], the state of the network's recurrent
            layers, which `act` and `greedy` advance; None before the first
            observations, and without such layers.
        places: float64 [B], relative indices of the environments in the run, from 0 to
            1; None outside of training.
        scales_actions: whether components of actions that have two finite bounds range
            from -1 to 1 and are scaled to these bounds.
        squashes_actions: whether the policy takes the tanh of its network's means
            before it scales them.
        keeps_noise: whether noise on the network's weights lasts for a rollout.
        served: the network in the learner's process; None to compute it here.
        onnx_rows: number of observations on which each version of the weights acts.
            ONNX Runtime computes the layers in which it then saves time; none with 0.
        onnx_threads: number of its threads.
    """

    scales_actions: bool = False
    squashes_actions: ClassVar[bool] = False
    keeps_noise: ClassVar[bool] = False
    served: ServedNetwork | None = None
    onnx_rows: float = 0
    onnx_threads: int = 1

    def __init__(self, config: Any, spec: EnvSpec, layout: Layout) -> None:
        self._config, self._spec, self._layout = config, spec, layout
        self._low = np.asarray(spec.action_low, np.float32)
        self._high = np.asarray(spec.action_high, np.float32)
        self._is_scaled = np.array(spec.is_bounded, np.bool_)
        # Infinite bounds, which aren't used, would become NaN: 0 * inf.
        self._span = [
            np.where(self._is_scaled, x, np.float32(0)) for x in (self._low, self._high)
        ]
        self.memory: Array = np.zeros(0, np.float32)
        self.memory_units = spec.action_units
        self.network_noise: FloatArray | None = None
        self.places: Array | None = None
        self.action_masks: BoolArray | None = None
        self.recurrent_state: FloatArray | None = None
        self._sde: StateDependentNoise | None = None
        if config.uses_sde:
            self._sde = StateDependentNoise(layout, noise_of(config).sde_steps)
            self._layout, self.memory_units = self._sde.layout, SEED_UNITS

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self._arrays = weights.arrays
        forward = None if self.served is None else self.served.bind(weights)
        forward = forward or bind_network(self._layout, weights.arrays, self._trunk)
        self._forward = self._with_state(forward) if self.state_units else forward

    @cached_property
    def _trunk(self) -> OnnxTrunk | None:
        if not (self.onnx_rows and is_installed()):
            return None
        return OnnxTrunk(self._layout, self.onnx_threads, self.onnx_rows)

    @property
    def state_units(self) -> int:
        """Size of one environment's recurrent state; 0 without memory."""
        return self._layout.state_units

    def _with_state(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return a forward pass that reads and advances the recurrent state."""

        def advance(x: Observations, noise: FloatArray | None = None) -> Any:
            state = self.recurrent_state
            if state is None:
                state = self._initial_state(len(arrays_of(x)[0]))
            outputs, self.recurrent_state = forward(x, noise, state=state)
            return outputs

        return advance

    def _initial_state(self, n_envs: int) -> FloatArray:
        return np.zeros((n_envs, self.state_units), np.float32)

    def begin_rollout(self, generators: Sequence[np.random.Generator]) -> None:
        """Draw the noise on the network's weights, if it lasts for a rollout.

        Each environment's is from its own generator. Evaluations don't call this, so
        they act with the mean weights. A network's memory has a state from then on.
        """
        if self.state_units and self.recurrent_state is None:
            self.recurrent_state = self._initial_state(len(generators))
        units = self._layout.noise_units
        if self.keeps_noise and self._sde is None and units:
            drawn = [each.standard_normal(units, np.float32) for each in generators]
            self.network_noise = np.stack(drawn)

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw noise [T, B, ...], each environment's from its own generator."""
        drawn = self._empty_noise((len(generators), steps))
        for generator, out in zip(generators, drawn, strict=True):
            self._draw(generator, out)
        return np.ascontiguousarray(drawn.swapaxes(0, 1))

    def _empty_noise(self, shape: tuple[int, int]) -> Array:
        """Return an array for the noise of all environments, [B, T, ...]."""
        return np.empty(shape)

    @abstractmethod
    def _draw(self, generator: np.random.Generator, out: Array) -> None:
        """Draw the noise of one environment, [T, ...]."""

    @abstractmethod
    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose actions for [B, *input_shape] with noise [B, ...]."""

    @abstractmethod
    def greedy(self, observations: Array) -> Array:
        """Return the most likely actions.

        They are int32 [B] or [B, P], or float32 [B, A] within bounds.
        """

    def _to_bounds(self, actions: Array) -> Array:
        """Return the actions [B, A] to step, within the environment's bounds."""
        if self.scales_actions:
            part = (np.clip(actions, -1, 1) + 1) / 2
            low, high = self._span
            actions = np.where(self._is_scaled, (1 - part) * low + part * high, actions)
        return np.clip(actions, self._low, self._high)

    def log_probs(self, rows: Actions, noise: Array) -> FloatArray | None:
        """Return log-probabilities of drawn actions, float32 [T, B]; None if unused.

        `rows` has arrays [T, B, ...]; `noise` is the noise used to draw the actions.
        """
        return None

    def probabilities(self, rows: Actions) -> FloatArray | None:
        """Return all actions' probabilities, float32 [T, B, n]; None if unused."""
        return None

    def values(self, observations: Array) -> FloatArray | None:
        """Return float32 [B] values of observations; None without a critic."""
        return None

    def reset_memory(self, resets: BoolArray) -> None:
        """Reset the noise and the recurrent state of some environments.

        These begin an episode: `resets`, bool [B].

        Source: arXiv:1509.02971, algorithm 1, for the noise.
        """
        if self.memory.size:
            self.memory[resets] = 0
        if self.recurrent_state is not None and resets.any():
            zero = np.float32(0)
            self.recurrent_state = np.where(resets[:, None], zero, self.recurrent_state)


def noise_generators(
    seed: int, first_env: int, n_envs: int, restarts: int = 0
) -> list[np.random.Generator]:
    """Return the generators of the environments' action noise.

    They depend on an environment's index in the run, starting at `first_env`, and on
    how often its actor was restarted.
    """
    more = [restarts] if restarts else []
    envs = range(first_env, first_env + n_envs)
    return [np.random.default_rng([seed, env, *more]) for env in envs]


def mask_outputs(outputs: FloatArray, masks: BoolArray | None) -> FloatArray:
    """Return logits or values [B, n], `FORBIDDEN` where masks [B, n] are False."""
    return outputs if masks is None else np.where(masks, outputs, np.float32(FORBIDDEN))


def random_actions(uniform: Array, n_actions: int, masks: BoolArray | None) -> Array:
    """Return actions, int32 [B], of uniform numbers [B] in [0, 1).

    Those that masks, bool [B, n_actions], allow are equally likely.
    """
    if masks is None:
        return (uniform * n_actions).astype(np.int32)
    counts = masks.sum(axis=-1, dtype=np.int64)
    drawn = np.minimum((uniform * counts).astype(np.int64), counts - 1)
    return largest_index(masks.cumsum(axis=-1) > drawn[:, None])


def split_parts(logits: FloatArray, sizes: Sequence[int]) -> list[FloatArray]:
    """Split logits of several actions per step into one array [..., n] per action."""
    ends = np.cumsum(sizes[:-1])
    return np.split(logits, ends, axis=-1)


def largest_index(outputs: FloatArray) -> Array:
    """Return the index of the largest output in each row of [B, n], int32 [B]."""
    return outputs.argmax(axis=-1).astype(np.int32)  # type: ignore[no-any-return]


def sample_categorical(logits: FloatArray, uniform: Array) -> Array:
    """Draw int32 [B] from softmax(logits) by inverting the distribution function.

    The logits are float32 [B, n], the uniform numbers float64 [B] in [0, 1).
    """
    columns = logits.T.copy()  # NumPy takes longer for many short rows
    columns -= np.maximum.reduce(columns)
    cumulative = np.add.accumulate(np.exp(columns, out=columns), out=columns)
    # Leaving out the last action keeps rounding from yielding an index of n.
    below: BoolArray = cumulative[:-1] <= uniform * cumulative[-1]
    actions: Array = np.add.reduce(below, dtype=np.int32)
    return actions


def categorical_log_probs(logits: FloatArray, actions: Array) -> FloatArray:
    """Return log-probabilities float32 [...] of actions [...] from logits [..., n]."""
    shifted = logits - np.maximum.reduce(logits, axis=-1, keepdims=True)
    sums = np.add.accumulate(np.exp(shifted), axis=-1)[..., -1]
    flat = shifted.reshape(-1, logits.shape[-1])
    chosen: FloatArray = flat[np.arange(len(flat)), actions.ravel()]
    return chosen.reshape(actions.shape) - np.log(sums)
