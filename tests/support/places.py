"""Environments with observations of each number type, and with both action spaces."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from stepping import Stepping

LOW, HIGH = np.array([-3, 1], np.float32), np.array([1, 4], np.float32)
WIDEST = {"float32": 10.0, "float64": 1e6, "uint8": 255}


class Places(Stepping):
    """Random places; the reward is how near an action's first number comes to 0."""

    length = 5

    def __init__(self, dtype: str, is_discrete: bool) -> None:
        low, high = 0 if dtype == "uint8" else -WIDEST[dtype], WIDEST[dtype]
        self.observation_space = gym.spaces.Box(low, high, (5,), np.dtype(dtype))
        box = gym.spaces.Box(LOW, HIGH)
        self.action_space = gym.spaces.Discrete(3, start=2) if is_discrete else box

    def observe(self) -> Any:
        space = self.observation_space
        return self.np_random.uniform(space.low, space.high).astype(space.dtype)

    def reward(self, action: Any) -> float:
        assert self.action_space.contains(action), f"{action} not in the space"
        self.truncates = bool(self.np_random.integers(2))
        return -abs(float(np.ravel(action)[0]))


class Crashing(Places):
    """Raises in its 100th step."""

    count = 0

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == 100:
            raise RuntimeError("the simulator crashed")
        return super().step(action)


float32, float64, uint8 = (partial(Places, dtype, False) for dtype in WIDEST)
float32_discrete, float64_discrete, uint8_discrete = (
    partial(Places, dtype, True) for dtype in WIDEST
)
crashing = partial(Crashing, "float32", True)
