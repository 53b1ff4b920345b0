"""An environment whose observations are far from 0."""

from typing import Any

import gymnasium as gym
import numpy as np
from stepping import Stepping


class Far(Stepping):
    """Observations around 1,000, which `seen` notes; rewards of 3."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    length, truncates = 20, True

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def observe(self) -> Any:
        self.seen.append(self.np_random.normal(1000, [1, 5]))
        return np.float32(self.seen[-1])

    def reward(self, action: Any) -> float:
        return 3.0
