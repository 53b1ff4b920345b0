"""An environment with every kind of observation and action."""

from typing import Any

import gymnasium as gym
import numpy as np
from stepping import Stepping

Box, Dict, Discrete = gym.spaces.Box, gym.spaces.Dict, gym.spaces.Discrete
PARTS: dict[str, gym.Space[Any]] = {
    "camera": Box(0, 255, (36, 36), np.uint8),
    "compass": Discrete(4),
    "hidden": Box(-1, 1, (2,), np.float32),
    "speed": Box(-1, 1, (3,), np.float32),
}
SEEN: dict[str, tuple[str, ...]] = {
    "vector": ("speed",),
    "image": ("camera",),
    "vectors": ("compass", "hidden", "speed"),
    "mixed": ("camera", "compass", "hidden", "speed"),
}
ACTIONS: dict[str, gym.Space[Any]] = {
    "one": Discrete(3),
    "several": gym.spaces.MultiDiscrete([3, 2]),
    "continuous": Box(-1, 1, (2,), np.float32),
}


class Varied(Stepping):
    """Shows random numbers, and pays for the first component of the action.

    Args:
        seen: key of `SEEN`.
        actions: key of `ACTIONS`.
        masks: whether only some actions are allowed; at the end none.
    """

    length = 5

    def __init__(
        self, seen: str = "vector", actions: str = "one", masks: bool = False
    ) -> None:
        names = SEEN[seen]
        parts = {name: PARTS[name] for name in names}
        self.observation_space = parts[names[0]] if len(names) == 1 else Dict(parts)
        self.action_space, self._masks = ACTIONS[actions], masks
        self._seed = self._episode = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self._seed, self._episode = seed, 0
        self._episode += 1
        observation, _ = super().reset(seed=seed)
        return observation, self._info()

    def step(self, action: Any) -> Any:
        if self._masks:
            masks, begin = self._allowed(), 0
            for size, chosen in zip(self._sizes, np.ravel(action), strict=True):
                assert masks[begin + chosen], f"{action} is not allowed"
                begin += size
        *results, _ = super().step(action)
        return *results, self._info()

    def observe(self) -> Any:
        rng = self._random(0)
        if not isinstance(self.observation_space, Dict):
            return _drawn(self.observation_space, rng)
        return {name: _drawn(x, rng) for name, x in self.observation_space.items()}

    def reward(self, action: Any) -> float:
        return float(np.ravel(action)[0])

    def get_state(self) -> list[int]:
        return [self._seed, self._episode, self.steps]

    def set_state(self, state: list[int]) -> None:
        self._seed, self._episode, self.steps = state

    @property
    def _sizes(self) -> tuple[int, ...]:
        space = self.action_space
        if isinstance(space, gym.spaces.MultiDiscrete):
            return (*space.nvec,)
        return (space.n,) if isinstance(space, Discrete) else space.shape

    def _random(self, stream: int) -> np.random.Generator:
        state = self._seed, self._episode, self.steps, stream
        return np.random.default_rng(state)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._allowed()} if self._masks else {}

    def _allowed(self) -> Any:
        """Return bool [units]; at least one action of each component, or none."""
        if self.steps == self.length:
            return np.zeros(sum(self._sizes), np.bool_)
        rng = self._random(1)
        parts = []
        for size in self._sizes:
            parts.append(rng.random(size) < 0.5)
            parts[-1][rng.integers(size)] = True
        return np.concatenate(parts)


def _drawn(space: gym.Space[Any], rng: np.random.Generator) -> Any:
    if isinstance(space, Discrete):
        return rng.integers(space.n)
    if space.dtype == np.uint8:
        return rng.integers(256, size=space.shape, dtype=np.uint8)
    return rng.uniform(-1, 1, space.shape).astype(np.float32)
