"""Environments that allow only some actions, in each form that tells which."""

from typing import Any

import gymnasium as gym
import numpy as np

KEYS, LENGTH = 10, 6


class Locks(gym.Env[Any, Any]):
    """Each lock opens with the key that is shown; only it and a wrong one are allowed.

    Args:
        source: how masks are given: `info`, `method`, `key` of a Dict, or `none`.
        parts: number of keys per step; more than one makes actions MultiDiscrete.
    """

    def __init__(self, source: str = "info", parts: int = 1) -> None:
        self._source, self._parts, self._row = source, parts, 0
        low_high = 0.0, 1.0
        self.observation_space: gym.Space[Any] = gym.spaces.Box(*low_high, (KEYS,))
        if source == "key":
            mask = gym.spaces.Box(0, 1, (KEYS * parts,), np.int8)
            both = {"observation": self.observation_space, "action_mask": mask}
            self.observation_space = gym.spaces.Dict(both)
        self.action_space: gym.Space[Any] = gym.spaces.Discrete(KEYS)
        if parts > 1:
            self.action_space = gym.spaces.MultiDiscrete([KEYS] * parts)
        if source == "method":
            self.action_masks = self.mask

    def mask(self) -> Any:
        """Return bool [KEYS * parts]; nothing is allowed after the end."""
        allowed = np.zeros(KEYS, np.bool_)
        if self._row < LENGTH:
            allowed[[self._key, (self._key + 3) % KEYS]] = True
        return np.tile(allowed, self._parts)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._row, self._key = 0, int(self.np_random.integers(KEYS))
        return self._shown()

    def step(self, action: Any) -> Any:
        chosen = np.ravel(action)
        if not self.mask()[:KEYS][chosen].all():
            raise AssertionError(f"{action} is not allowed")
        reward = float((chosen == self._key).mean())
        self._row, self._key = self._row + 1, int(self.np_random.integers(KEYS))
        observation, info = self._shown()
        return observation, reward, self._row == LENGTH, False, info

    def get_state(self) -> list[int]:
        return [self._row, self._key]

    def set_state(self, state: list[int]) -> None:
        self._row, self._key = state

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        seen = np.zeros(KEYS, np.float32)
        seen[self._key] = 1
        if self._source == "key":
            return {"observation": seen, "action_mask": np.int8(self.mask())}, {}
        return seen, {"action_mask": self.mask()} if self._source == "info" else {}


class Told(Locks):
    """Gives the masks that it is told, one per step."""

    masks: tuple[Any, ...] = ()

    def mask(self) -> Any:
        return np.ones(KEYS, np.bool_)

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        told = self.masks[min(self._row, len(self.masks) - 1)]
        return np.zeros(KEYS, np.float32), {} if told is None else {"action_mask": told}


class ContinuousMask(gym.Env[Any, Any]):
    """Continuous actions with a mask, which no agent takes."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {"action_mask": [1]}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 0.0, False, True, {"action_mask": [1]}
