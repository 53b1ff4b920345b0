"""Environments as a script or a notebook has them, in `__main__`; see its users."""

from typing import Any

import gymnasium as gym
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from gymnasium.envs.registration import WrapperSpec

LENGTH = 50


class Own(CartPoleEnv):
    """CartPole, with a global of `__main__`."""

    def step(self, action: Any) -> Any:
        assert LENGTH == 50
        return super().step(action)


class OwnVector(CartPoleVectorEnv):
    """An own vector form."""


class Wrapper(gym.Wrapper):  # type: ignore[type-arg]
    """An own wrapper."""


class Outer(gym.Wrapper):  # type: ignore[type-arg]
    """An environment that makes another one by its id."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(gym.make("own/Class-v1", **settings))


def factory(**settings: Any) -> Any:
    """Return an environment."""
    return gym.wrappers.TimeLimit(Own(**settings), LENGTH)


ends: Any = {"max_episode_steps": LENGTH}
wrapped: Any = {"additional_wrappers": (WrapperSpec("W", "__main__:Wrapper", {}),)}
gym.register("own/Text-v0", "__main__:Own", **ends)
gym.register("own/Class-v1", Own, **ends)
gym.register("own/Wrapped-v0", lambda **settings: Own(**settings), **ends, **wrapped)
gym.register("own/Vector-v0", Own, vector_entry_point="__main__:OwnVector", **ends)
gym.register("own/Outer-v0", Outer)
gym.registry["CartPole-v1"].entry_point = Own  # in place of Gymnasium's
gym.registry["CartPole-v1"].vector_entry_point = None
ENVIRONMENTS = [
    "own/Text-v0",
    "own/Class-v1",
    "own/Wrapped-v0",
    "own/Vector-v0",
    "own/Outer-v0",
    "CartPole-v1",
    "__main__:factory",
]
