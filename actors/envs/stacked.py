"""Environments with stacked frames, as a policy sees them."""

from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space

from xagents_ray.actors.envs import wrapping
from xagents_ray.core.trajectory import Array


class StackedImages(gym.Wrapper[Any, Any, Any, Any]):
    """Returns the newest frames of each image in a dict of arrays, [stack, H, W(, C)].

    At the beginning of an episode, older frames are zeros. Other arrays are unchanged.
    """

    def __init__(self, env: gym.Env[Any, Any], stack: int) -> None:
        super().__init__(env)
        self.observation_space = stacked_space(env.observation_space, stack)
        spaces: Any = env.observation_space
        self._stack = stack
        self._frames: dict[str, deque[Array]] = {
            name: deque(maxlen=stack)
            for name, space in spaces.items()
            if wrapping.is_image(space)
        }

    def reset(self, **given: Any) -> Any:
        """Begin an episode; return the first observation and the info."""
        observation, info = self.env.reset(**given)
        for name, frames in self._frames.items():
            frames.extend([np.zeros_like(observation[name])] * self._stack)
        return self._stacked(observation), info

    def step(self, action: Any) -> Any:
        observation, *results = self.env.step(action)
        return self._stacked(observation), *results

    def _stacked(self, observation: dict[str, Array]) -> dict[str, Array]:
        stacked = dict(observation)
        for name, frames in self._frames.items():
            frames.append(observation[name])
            stacked[name] = np.stack(frames)
        return stacked


def stack_images(env: gym.Env[Any, Any], stack: int) -> gym.Env[Any, Any]:
    """Return an environment that stacks the frames of its images."""
    if stack == 1:
        return env
    if isinstance(env.observation_space, gym.spaces.Dict):
        return StackedImages(env, stack)
    return gym.wrappers.FrameStackObservation(env, stack, padding_type="zero")


def stacked_space(space: Any, stack: int) -> Any:
    """Return the space of observations with stacked frames of their images."""
    if stack == 1:
        return space
    if isinstance(space, gym.spaces.Dict):
        parts = space.spaces.items()
        pairs = [
            (k, stacked_space(x, stack if wrapping.is_image(x) else 1))
            for k, x in parts
        ]
        return gym.spaces.Dict(pairs)
    return batch_space(space, stack)
