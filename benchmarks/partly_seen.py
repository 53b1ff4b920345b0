"""Environments that need memory, masks, several inputs or a critic that sees more."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

_VELOCITIES = {"CartPole": (1, 3), "Pendulum": (2,), "MountainCarContinuous": (1,)}
"""Places of the velocities in the observations, by name of the environment."""


class WithoutVelocities(gym.ObservationWrapper[Any, Any, Any]):
    """Leaves the velocities out of observations of classic control."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.observation_space
        assert env.spec is not None
        assert isinstance(space, gym.spaces.Box)
        hidden = _VELOCITIES[env.spec.id.partition("-")[0]]
        self._shown = [i for i in range(space.shape[0]) if i not in hidden]
        low, high = space.low[self._shown], space.high[self._shown]
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float32)

    def observation(self, observation: Any) -> Any:
        return observation[self._shown]


class TMaze(gym.Env[Any, Any]):
    """A corridor of 20 steps, at whose start a sign shows where the reward is.

    Observations are the sign (−1 or 1, 0 after the first step) and whether this is the
    junction; there, action 0 or 1 earns 1 where it is the one that the sign showed.
    """

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    length = 20

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Show the sign."""
        super().reset(seed=seed)
        self._place, self._right = 0, int(self.np_random.integers(2))
        return np.array([2 * self._right - 1, 0], np.float32), {}

    def step(self, action: Any) -> Any:
        """Walk on; the episode ends at the junction."""
        at_junction = self._place == self.length
        self._place += 1
        seen = np.array([0, self._place == self.length], np.float32)
        reward = float(at_junction and action == self._right)
        return seen, reward, at_junction, False, {}


class Combination(gym.Env[Any, Any]):
    """Twenty locks in a circle, of which one is shown.

    Of 400 keys 40 fit, and one of them opens the lock, which earns 1. A key that fits
    leads to the next lock, any other does nothing. An episode has 20 steps.
    """

    locks, keys, fitting = 20, 400, 40
    observation_space = gym.spaces.Box(0.0, 1.0, (locks,), np.float32)
    action_space = gym.spaces.Discrete(keys)

    def __init__(self) -> None:
        made = np.random.default_rng(0)  # the same locks in all environments
        self._fits = np.zeros((self.locks, self.keys), np.bool_)
        self._opens = np.zeros(self.locks, np.int64)
        for lock in range(self.locks):
            fitting = made.choice(self.keys, self.fitting, replace=False)
            self._fits[lock, fitting] = True
            self._opens[lock] = fitting[0]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin with any lock."""
        super().reset(seed=seed)
        self._step, self._lock = 0, int(self.np_random.integers(self.locks))
        return self._observe()

    def step(self, action: Any) -> Any:
        """Try a key."""
        fits = self._fits[self._lock, action]
        opened = self._opens[self._lock] == action
        self._lock = (self._lock + fits) % self.locks
        self._step += 1
        observation, info = self._observe()
        return observation, float(opened), self._step == self.locks, False, info

    def _observe(self) -> tuple[NDArray[np.float32], dict[str, Any]]:
        shown = np.zeros(self.locks, np.float32)
        shown[self._lock] = 1
        return shown, {"action_mask": self._fits[self._lock].copy()}


class Compass(gym.Env[Any, Any]):
    """A grid whose map is an image, turned against the actions as a compass shows.

    The map shows the walker and its goal. Action i walks along direction i of the
    compass, whose north is another after each step. An episode has 20 steps; each goal
    that is reached earns 1, and the next one appears.

    Args:
        shown: `both`, or the only one of `map` and `compass` that is observed.
    """

    size = 5
    action_space = gym.spaces.Discrete(4)
    _DIRECTIONS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])

    def __init__(self, shown: str = "both") -> None:
        pixels = self.size * 4
        whole = {
            "map": gym.spaces.Box(0, 255, (pixels, pixels, 1), np.uint8),
            "compass": gym.spaces.Discrete(4),
        }
        self._only = None if shown == "both" else shown
        spaces = gym.spaces.Dict(whole)
        self.observation_space: gym.Space[Any] = (
            spaces if self._only is None else whole[self._only]
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Place the walker and the goal."""
        super().reset(seed=seed)
        self._step, self._walker = 0, self.np_random.integers(self.size, size=2)
        self._place_goal()
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        """Walk one place, or stay at the edge."""
        moved = self._walker + self._DIRECTIONS[(action + self._north) % 4]
        self._walker = np.clip(moved, 0, self.size - 1)
        self._step += 1
        reached = bool((self._walker == self._goal).all())
        if reached:
            self._place_goal()
        return self._observe(), float(reached), False, self._step == 20, {}

    def _place_goal(self) -> None:
        self._goal = self._walker
        while (self._goal == self._walker).all():
            self._goal = self.np_random.integers(self.size, size=2)

    def _observe(self) -> Any:
        self._north = int(self.np_random.integers(4))
        cells = np.zeros((self.size, self.size), np.uint8)
        cells[tuple(self._goal)], cells[tuple(self._walker)] = 120, 255
        image = np.kron(cells, np.ones((4, 4), np.uint8))[..., None]
        whole = {"map": image, "compass": self._north}
        return whole if self._only is None else whole[self._only]


class NoisyState(gym.ObservationWrapper[Any, Any, Any]):
    """Shows the state with noise, and beside it the state itself, for critics.

    Args:
        env: environment with vectors of observations.
        std: standard deviation of the Gaussian noise.
    """

    def __init__(self, env: gym.Env[Any, Any], std: float = 0.15) -> None:
        super().__init__(env)
        space = env.observation_space
        assert isinstance(space, gym.spaces.Box)
        self._std = std
        low, high = space.low - 5 * std, space.high + 5 * std
        noisy = gym.spaces.Box(low, high, dtype=np.float32)
        self.observation_space = gym.spaces.Dict({"noisy": noisy, "state": space})

    def observation(self, observation: Any) -> Any:
        noise = self.env.unwrapped.np_random.normal(0, self._std, observation.shape)
        noisy = (observation + noise).astype(np.float32)
        return {"noisy": noisy, "state": observation}


class NoisyOnly(NoisyState):
    """Shows the state with noise only."""

    def __init__(self, env: gym.Env[Any, Any], std: float = 0.15) -> None:
        super().__init__(env, std)
        self.observation_space = self.observation_space["noisy"]  # type: ignore[index]

    def observation(self, observation: Any) -> Any:
        return super().observation(observation)["noisy"]
