"""Policies: they act in NumPy with weights of one version.

Noise comes from one generator per environment, so that which environments share
an actor changes nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    FloatArray,
    Weights,
)
from xagents_ray.networks.forward import bind, softmax
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig

_NO_MEMORY = np.zeros(0, np.float32)
_THETA, _DT = 0.15, 0.01


class Actions(NamedTuple):
    """What a policy chose for B environments.

    Attributes:
        stored: int32 [B] or float32 [B, A], as drawn; what is learnt from.
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


class Policy(Protocol):
    """What an env actor needs of a policy.

    Attributes:
        memory: float32 [B, A], what noise carries from one step to the next; empty
            where each draw stands by itself.
    """

    memory: Array

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw [T, B, ...] of noise, each environment's from its own generator."""

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose actions for [B, *input_shape] with noise [B, ...]."""

    def greedy(self, observations: Array) -> Array:
        """Return the likeliest actions, int32 [B] or float32 [B, A] within bounds."""

    def values(self, observations: Array) -> FloatArray | None:
        """Return float32 [B] values of observations, None without a critic."""


class ActorCriticPolicy:
    """Samples from a categorical or a diagonal Gaussian policy; may have values."""

    memory: Array = _NO_MEMORY

    def __init__(self, config: AlgorithmConfig, spec: EnvSpec, layout: Layout) -> None:
        del config  # every policy is made with one; this one has no settings
        self._spec, self._layout = spec, layout
        self._low = np.asarray(spec.action_low, np.float32)
        self._high = np.asarray(spec.action_high, np.float32)

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self._forward = bind(self._layout, weights.arrays)
        if not self._spec.is_discrete:
            self._log_std = weights.arrays["log_std"]

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
        raw = outputs + np.exp(self._log_std) * noise
        log_probs = -(np.square(noise) + np.log(2 * np.pi)).sum(-1) / 2
        log_probs = (log_probs - self._log_std.sum()).astype(np.float32)
        stepped = np.clip(raw, self._low, self._high)
        return Actions(raw, stepped, log_probs, values)

    def greedy(self, observations: Array) -> Array:
        """Return the largest logits' actions, or the means within bounds."""
        outputs = self._forward(observations)[0]
        if self._spec.is_discrete:
            return _largest(outputs)
        return np.clip(outputs, self._low, self._high)

    def values(self, observations: Array) -> FloatArray | None:
        """Return float32 [B] values, None when the network has none."""
        _, *more = self._forward(observations)
        return more[0][:, 0] if more else None


class DeterministicPolicy:
    """The actor's action with normal noise; random ones until learning starts.

    Actions span -1 to 1 where they are drawn, stored and learnt from, and the bounds
    of the environment where they are stepped.
    """

    def __init__(
        self, config: DDPGConfig | TD3Config, spec: EnvSpec, layout: Layout
    ) -> None:
        self._spec, self._layout = spec, layout
        self._scale, self._random_steps = config.step_noise_coef, config.initial_size
        self._wanders = config.noise == "ou"
        self.memory = _NO_MEMORY
        self._low = np.asarray(spec.action_low, np.float32)
        self._high = np.asarray(spec.action_high, np.float32)

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self._forward = bind(self._layout, weights.arrays)

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw [T, B, 2, A]: of standard deviation 1, and uniform from -1 to 1."""
        shape = (steps, self._spec.action_units)
        draws = [
            np.stack([g.standard_normal(shape), g.uniform(-1, 1, shape)], axis=1)
            for g in generators
        ]
        return np.stack(draws, axis=1).astype(np.float32)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose an action for each observation."""
        normal, uniform = noise[:, 0], noise[:, 1]
        if self._wanders:
            before = self.memory if self.memory.size else np.zeros_like(normal)
            normal = self.memory = wander(normal, before)
        if env_steps < self._random_steps:
            actions = uniform
        else:
            means = self._forward(observations)[0]
            actions = np.clip(means + self._scale * normal, -1, 1)
        return Actions(actions, self._stepped(actions))

    def greedy(self, observations: Array) -> Array:
        """Return float32 [B, A], the actor's actions without noise."""
        return self._stepped(np.clip(self._forward(observations)[0], -1, 1))

    def values(self, observations: Array) -> FloatArray | None:
        """Return None: values come with the learner's critics."""
        return None

    def _stepped(self, actions: Array) -> Array:
        part = (actions + 1) / 2
        stepped: Array = (1 - part) * self._low + part * self._high
        return np.clip(stepped, self._low, self._high)


class EpsilonGreedyPolicy:
    """The action of the largest value, or with a falling probability any action."""

    memory: Array = _NO_MEMORY

    def __init__(self, config: DQNConfig, spec: EnvSpec, layout: Layout) -> None:
        self._config, self._spec, self._layout = config, spec, layout

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self._forward = bind(self._layout, weights.arrays)

    def noise(self, generators: Sequence[np.random.Generator], steps: int) -> Array:
        """Draw uniform [T, B, 2]: a coin and an action for each environment."""
        return np.stack([g.random((steps, 2)) for g in generators], axis=1)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose an action for each observation, one coin each."""
        explore = noise[:, 0] < epsilon(self._config, env_steps)
        actions = (noise[:, 1] * self._spec.n_actions).astype(np.int32)
        if not explore.all():
            actions = np.where(explore, actions, self.greedy(observations))
        return Actions(actions, actions)

    def greedy(self, observations: Array) -> Array:
        """Return int32 [B] actions of the largest values."""
        return _largest(self._forward(observations)[0])

    def values(self, observations: Array) -> FloatArray | None:
        """Return None: there is no critic."""
        return None


class CategoricalPolicy:
    """Samples from a categorical policy and says all actions' probabilities."""

    memory: Array = _NO_MEMORY

    def __init__(self, config: AlgorithmConfig, spec: EnvSpec, layout: Layout) -> None:
        del config, spec  # every policy is made with these; this one needs neither
        self._layout = layout

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self._forward = bind(self._layout, weights.arrays)

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
        return _largest(self._forward(observations)[0])

    def values(self, observations: Array) -> FloatArray | None:
        """Return None: values come with the learner's newest policy."""
        return None


def _largest(outputs: FloatArray) -> Array:
    return outputs.argmax(axis=-1).astype(np.int32)  # type: ignore[no-any-return]


def wander(normal: FloatArray, before: FloatArray) -> FloatArray:
    """Return the next step of an Ornstein-Uhlenbeck process, whose sigma is 1.

    Args:
        normal: float32 [...], standard normal.
        before: float32 [...], where it stood before.
    Returns:
        float32 [...].
    Source: doi:10.1103/PhysRev.36.823; theta and dt are those of Stable-Baselines3.
    """
    step = np.float32(np.sqrt(_DT)) * normal
    moved: FloatArray = before * np.float32(1 - _THETA * _DT) + step
    return moved


def forget(memory: Array, resets: BoolArray) -> None:
    """Let the noise of environments start over, whose episodes begin.

    Args:
        memory: of a policy, changed.
        resets: bool [B], which environments.
    Source: arXiv:1509.02971, algorithm 1.
    """
    if memory.size:
        memory[resets] = 0


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


def epsilon(config: DQNConfig, env_steps: int) -> float:
    """Return the probability of a random action after this many env steps."""
    part = min(1.0, env_steps / config.epsilon_decay_steps)
    return config.epsilon_start + (config.epsilon_end - config.epsilon_start) * part
