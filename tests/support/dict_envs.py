"""Environments whose observations have images and vectors."""

from typing import Any

import gymnasium as gym
import numpy as np
from stepping import Stepping

Box, Dict, Discrete, Tuple = (
    gym.spaces.Box,
    gym.spaces.Dict,
    gym.spaces.Discrete,
    gym.spaces.Tuple,
)
CAMERA, MAP = (6, 5, 3), (4, 7)
"""Shapes of frames, which say the number of the step."""
NAMES = ("arm.joints", "camera", "compass", "map")


def image(shape: tuple[int, ...]) -> Box:
    return Box(0, 255, shape, np.uint8)


class Compass(Stepping):
    """Shows two images and two vectors, all of which tell the step and the episode.

    Args:
        length: length of episodes.
        is_tuple: whether the observation is a Tuple in place of a Dict.
        first: whether the camera's channels come first.
    """

    def __init__(
        self, length: int = 5, is_tuple: bool = False, first: bool = False
    ) -> None:
        self.length, self._is_tuple, self._first = length, is_tuple, first
        camera = image((3, 6, 5) if first else CAMERA)
        joints = Box(-1e3, 1e3, (2, 2), np.float64)
        parts = {
            "arm": Dict({"joints": joints}),
            "camera": camera,
            "compass": Discrete(4, start=1),
            "map": image(MAP),
        }
        self.observation_space = Tuple([*parts.values()]) if is_tuple else Dict(parts)
        self.episode = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.episode = seed % 7
        self.episode += 1
        return super().reset(seed=seed)

    def get_state(self) -> Any:
        return [self.episode, self.steps]

    def set_state(self, state: Any) -> None:
        self.episode, self.steps = state

    def observe(self) -> Any:
        number = 8 * (self.episode % 30) + self.steps
        camera = np.full(CAMERA, number, np.uint8)
        camera[0, 0] = 1, 2, 3
        parts = {
            "arm": {"joints": np.full((2, 2), number, np.float64)},
            "camera": camera.transpose(2, 0, 1) if self._first else camera,
            "compass": 1 + self.steps % 4,
            "map": np.full(MAP, 255 - number, np.uint8),
        }
        return (*parts.values(),) if self._is_tuple else parts


def compass(**settings: Any) -> Compass:
    return Compass(**settings)


def vector_compass(num_envs: int, **settings: Any) -> Any:
    """Return a vector environment of the user's."""
    makes = [lambda: Compass(**settings) for _ in range(num_envs)]
    return gym.vector.SyncVectorEnv(makes)


class OnlyImages(Compass):
    """Shows the camera and the map only."""

    def __init__(self) -> None:
        super().__init__()
        spaces = self.observation_space
        self.observation_space = Dict({k: spaces[k] for k in ("camera", "map")})

    def observe(self) -> Any:
        return {k: x for k, x in super().observe().items() if k in ("camera", "map")}


class OnePart(Compass):
    """Shows one part of the observation, in a Dict.

    Args:
        name: name of that part.
    """

    def __init__(self, name: str = "camera", **settings: Any) -> None:
        super().__init__(**settings)
        self._name = name
        self.observation_space = Dict({name: self.observation_space[name]})

    def observe(self) -> Any:
        return {self._name: super().observe()[self._name]}


class WithState(Stepping):
    """Shows an image and a vector that is named `state`."""

    observation_space = Dict({"map": image(MAP), "state": Box(-1, 1, (3,), np.float32)})

    def observe(self) -> Any:
        pixels = np.full(MAP, 9 * (self.steps % 20), np.uint8)
        return {"map": pixels, "state": np.full(3, 0.1, np.float32)}


def with_state() -> WithState:
    return WithState()


class ObservationAndState(Stepping):
    """Shows what actors read, and the state for critics, by their usual names."""

    _PART = Box(-1, 1, (3,), np.float32)
    observation_space = Dict({"observation": _PART, "state": _PART})

    def observe(self) -> Any:
        shown = np.full(3, 0.01 * (self.steps % 20), np.float32)
        return {"observation": shown, "state": shown + 0.1}


def observation_and_state() -> ObservationAndState:
    return ObservationAndState()
