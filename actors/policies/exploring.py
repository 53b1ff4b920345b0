"""Policies that explore around greedy actions, for DQN, DDPG and TD3."""

import numpy as np

from xagents_ray.actors.policies import parameter_noise
from xagents_ray.actors.policies.base import (
    Actions,
    ActorPolicy,
    largest_index,
    mask_outputs,
    random_actions,
)
from xagents_ray.actors.policies.scaled import ScaledPolicy
from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.dqn import DQNConfig
from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, BoolArray, FloatArray, Weights
from xagents_ray.networks.layout import Layout

_THETA, _DT = 0.15, 0.01
_LADDER_START, _LADDER_STEPS = 0.4, 7


class EpsilonGreedyPolicy(ActorPolicy):
    """Takes the action with the largest value; with probability epsilon, a random one.

    A network with noisy layers explores through their noise once learning begins;
    before that, all actions are random.
    """

    def __init__(self, config: DQNConfig, spec: EnvSpec, layout: Layout) -> None:
        super().__init__(config, spec, layout)
        self._initial_size = config.initial_size

    def _empty_noise(self, shape: tuple[int, int]) -> Array:
        """Return an array for two numbers per step, or the network's noise plus one."""
        if units := self._layout.noise_units:
            return np.empty((*shape, units + 1), np.float32)
        return np.empty((*shape, 2))

    def _draw(self, generator: np.random.Generator, out: Array) -> None:
        """Draw uniform [T, 2]: for each step, whether to explore, and a random action.

        With noisy layers, draw normal [T, units] and a uniform number for the action.
        """
        if self._layout.noise_units:
            generator.standard_normal(out=out, dtype=np.float32)
            out[:, -1] = generator.random(len(out), np.float32)
        else:
            generator.random(out=out)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose an action for each observation, with its row of the noise."""
        masks = self.action_masks
        actions = random_actions(noise[:, -1], self._spec.n_actions, masks)
        if self._layout.noise_units:
            is_random = env_steps < self._initial_size
            if self.state_units or not is_random:
                values = self._forward(observations, noise[:, :-1])[0]
            if not is_random:
                actions = largest_index(mask_outputs(values, masks))
            return Actions(actions, actions)
        explore = noise[:, 0] < decayed_epsilon(self._config, env_steps, self.places)
        if self.state_units or not explore.all():  # memory must see all observations
            actions = np.where(explore, actions, self.greedy(observations))
        return Actions(actions, actions)

    def greedy(self, observations: Array) -> Array:
        """Return the actions with the largest values, int32 [B]."""
        return largest_index(
            mask_outputs(self._forward(observations)[0], self.action_masks)
        )


def decayed_epsilon(
    config: DQNConfig, env_steps: int, places: Array | None = None
) -> float | Array:
    """Return the probability of a random action after the given env steps.

    With `epsilon_ladder` and `places`, return one per environment, float64 [B].
    """
    if config.epsilon_ladder and places is not None:
        return epsilon_ladder(places)
    return config.epsilon_at(env_steps)


def epsilon_ladder(places: Array) -> Array:
    """Return each environment's probability of a random action, float64 [B].

    `places` are relative indices in the run, from 0 to 1.

    Source: arXiv:1803.00933, section 4.1.
    """
    ladder: Array = _LADDER_START ** (1 + _LADDER_STEPS * places)
    return ladder


class DeterministicPolicy(ScaledPolicy):
    """Adds noise to the actor's actions or weights; its first actions are random."""

    def __init__(
        self, config: DDPGConfig | TD3Config, spec: EnvSpec, layout: Layout
    ) -> None:
        super().__init__(config, spec, layout)
        self._scale = config.step_noise_coef
        self._is_correlated = config.noise == "ou"
        self._parameters: parameter_noise.ParameterNoise | None = None
        if config.noise == "parameter":
            self._parameters = parameter_noise.ParameterNoise(layout, self._scale)
            self.memory_units = parameter_noise.MEMORY_UNITS

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        super().load(weights)
        if self._parameters is not None:
            self._parameters.load(weights.arrays)

    def reset_memory(self, resets: BoolArray) -> None:
        """Reset the noise of environments that begin an episode: `resets`, bool [B]."""
        if self._parameters is None:
            super().reset_memory(resets)
        elif self.memory.size:
            self.memory[resets, 0] = 0  # a new seed; the adapted deviation stays

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Choose an action for each observation."""
        normal, uniform = noise[:, 0], noise[:, 1]
        if self._is_correlated:
            before = self.memory if self.memory.size else np.zeros_like(normal)
            normal = self.memory = ornstein_uhlenbeck(normal, before)
        if env_steps < self._random_steps:
            actions = uniform
        elif self._parameters is not None:
            actions = self._perturbed(observations, uniform[:, 0], self._parameters)
        else:
            means = self._forward(observations)[0]
            actions = np.clip(means + self._scale * normal, -1, 1)
        return Actions(actions, self._to_bounds(actions))

    def _perturbed(
        self,
        observations: Array,
        uniform: FloatArray,
        noise: parameter_noise.ParameterNoise,
    ) -> Array:
        """Return the actions of the perturbed actors, and adapt their noise."""
        memory = noise.begin(self.memory, uniform)
        actions = np.clip(noise.actions(observations, memory), -1, 1)
        means = np.clip(self._forward(observations)[0], -1, 1)
        self.memory = noise.adapted(memory, actions, means)
        return actions

    def greedy(self, observations: Array) -> Array:
        """Return the actor's actions without noise, float32 [B, A]."""
        return self._to_bounds(self._forward(observations)[0])


def ornstein_uhlenbeck(normal: FloatArray, before: FloatArray) -> FloatArray:
    """Return the next step of an Ornstein-Uhlenbeck process with a sigma of 1.

    `normal` is float32 [...] standard normal noise, `before` the previous values.

    Source: doi:10.1103/PhysRev.36.823; theta and dt are those of Stable-Baselines3.
    """
    step = np.float32(np.sqrt(_DT)) * normal
    moved: FloatArray = before * np.float32(1 - _THETA * _DT) + step
    return moved
