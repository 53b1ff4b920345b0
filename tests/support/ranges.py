"""Environments of bounded actions, of which one is the best, near an end of a range."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from stepping import Stepping

INFINITE = float("inf")
SPACES: dict[str, gym.spaces.Box] = {
    "bits": gym.spaces.Box(0, 1, (2,), np.int8),
    "signs": gym.spaces.Box(-3, 3, (1,), np.int32),
    "far": gym.spaces.Box(5, 35, (1,), np.float32),
    "wide": gym.spaces.Box(-2000, 2000, (1,), np.float32),
    "narrow": gym.spaces.Box(0, 0.01, (1,), np.float64),
    "mixed": gym.spaces.Box(
        np.array([5, -1, -INFINITE, 0], np.float32),
        np.array([35, 1, 3, INFINITE], np.float32),
    ),
}


class Ranges(Stepping):
    """Takes off how far from the best an action is, in parts of its range.

    The best is the largest integer, or the number a tenth of the range below the end.
    """

    length, truncates = 10, True

    def __init__(self, kind: str) -> None:
        self.action_space = space = SPACES[kind]
        low, high = (x.astype(np.float64) for x in (space.low, space.high))
        self._ends = np.isfinite(low) & np.isfinite(high)
        self._width = (high - low)[self._ends]
        share = 0.0 if space.dtype.kind == "i" else 0.1
        self._best = high[self._ends] - share * self._width

    def reward(self, action: Any) -> float:
        assert self.action_space.contains(action), f"{action} not in the space"
        off = np.abs(action[self._ends] - self._best) / self._width
        return -float(off.mean())


bits, signs, far, wide, narrow, mixed = (partial(Ranges, kind) for kind in SPACES)
