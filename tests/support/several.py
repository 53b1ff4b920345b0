"""Environments that take several discrete actions at once."""

from typing import Any

import gymnasium as gym
import numpy as np
from stepping import Stepping


class Several(Stepping):
    """Pays for each part of an action that is as large as it can be."""

    def __init__(self, space: gym.Space[Any]) -> None:
        self.action_space = space
        if isinstance(space, gym.spaces.MultiDiscrete):
            self.best = space.start + space.nvec - 1
        else:
            self.best = np.ones(space.shape, np.int8)

    def reward(self, action: Any) -> float:
        assert action in self.action_space, f"{action!r} is not in {self.action_space}"
        return float(np.mean(action == self.best))


def discrete() -> Several:
    return Several(gym.spaces.MultiDiscrete([3, 2, 4], start=[5, 0, -1]))


def matrix() -> Several:
    return Several(gym.spaces.MultiDiscrete([[2, 3], [4, 1]]))


def binary() -> Several:
    return Several(gym.spaces.MultiBinary((2, 2)))
