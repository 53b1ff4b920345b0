"""The environment that a user's function makes a network of."""

import copy
from typing import Any

import gymnasium as gym


class MakerView(gym.Wrapper[Any, Any, Any, Any]):
    """An environment with the spaces that a network's layers need.

    Numbers of actions are Python integers, as Keras requires. It also has the
    attributes of its observation space, for functions of that space, such as drlbox's
    `feature_maker`: `view.shape` is `view.observation_space.shape`.

    Args:
        env: the environment.
        space: space of the network's input, a Dict for named inputs.
    """

    def __init__(self, env: gym.Env[Any, Any], space: gym.spaces.Space[Any]) -> None:
        super().__init__(env)
        self.observation_space = space
        self.action_space = _with_integers(env.action_space)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.observation_space, name)


def _with_integers(actions: gym.Space[Any]) -> Any:
    """Return a copy of a space of actions whose counts are Python integers."""
    own: Any = copy.copy(actions)
    if isinstance(actions, gym.spaces.Discrete):
        own.n = int(actions.n)
    elif isinstance(actions, gym.spaces.MultiDiscrete):
        own.nvec = actions.nvec.astype(object)
    return own
