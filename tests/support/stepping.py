"""A small environment; subclasses say what is seen, paid and when an episode ends."""

from typing import Any

import gymnasium as gym
import numpy as np


class Stepping(gym.Env[Any, Any]):
    """Counts the steps of its episodes, which end or are cut off after `length`."""

    observation_space: Any = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space: Any = gym.spaces.Discrete(2)
    length, steps, truncates = 6, 0, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        reward, over = self.reward(action), self.steps == self.length
        ends = (False, over) if self.truncates else (over, False)
        return self.observe(), reward, *ends, {}

    def observe(self) -> Any:
        return np.zeros(self.observation_space.shape, self.observation_space.dtype)

    def reward(self, action: Any) -> float:
        return 1.0
