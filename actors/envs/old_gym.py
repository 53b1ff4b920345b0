"""Environments of gym 0.26 and older, of the extra `[gym]`, as Gymnasium ones."""

from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.process import quiet_stderr


def make(env_id: str, render_mode: str | None = None, **arguments: Any) -> Any:
    """Return an environment that is registered with gym.

    Raises:
        UserError: gym is not installed, or has no such environment.
    """
    # gym 0.26 uses two names that NumPy 2 dropped.
    for name, kind in (("bool8", np.bool_), ("float_", np.float64)):
        if not hasattr(np, name):
            setattr(np, name, kind)
    try:
        with quiet_stderr():  # its farewell banner
            import gym as old_gym
    except ImportError:
        raise UserError(
            f"gym:{env_id} needs the old gym: pip install 'xagents-ray[gym]'."
        ) from None
    arguments |= {"disable_env_checker": True, "render_mode": render_mode}
    try:
        return _Adapter(old_gym.make(env_id, **arguments), render_mode)
    except old_gym.error.Error as error:
        raise UserError(f"gym:{env_id} can't be made: {error}") from None


class _Adapter(gym.Env[Any, Any]):
    def __init__(self, env: Any, render_mode: str | None) -> None:
        self._env, self.render_mode = env, render_mode
        self.metadata = dict(env.metadata)
        self.observation_space = _space(env.observation_space)
        self.action_space = _space(env.action_space)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._env.step(action)
        return observation, float(reward), bool(terminated), bool(truncated), info

    def render(self) -> Any:
        return self._env.render()

    def close(self) -> None:
        self._env.close()


def _space(space: Any) -> gym.Space[Any]:
    kind = type(space).__name__
    if kind == "Box":
        return gym.spaces.Box(space.low, space.high, space.shape, space.dtype.type)
    if kind == "Discrete":
        return gym.spaces.Discrete(int(space.n), start=int(space.start))
    raise UserError(f"gym spaces of the kind {kind} are not supported.")
