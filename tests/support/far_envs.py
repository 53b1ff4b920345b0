"""An environment whose observations are far from 0."""

from typing import Any

import gymnasium as gym
import numpy as np


class Far(gym.Env[Any, Any]):
    """Observations around 1,000, which `seen` notes; rewards of 3."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def observe(self) -> Any:
        self.seen.append(self.np_random.normal(1000, [1, 5]))
        return np.float32(self.seen[-1])

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.observe(), 3.0, False, self.steps == 20, {}
