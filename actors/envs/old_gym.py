"""Environments of gym 0.26 and older, in the extra `[gym]`, for Gymnasium."""

import inspect
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import factory, interface
from xagents_ray.core.errors import UserError
from xagents_ray.core.process import quiet_stderr
from xagents_ray.core.user_code import is_of, line_of

_REPLACED = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")
"""Names of gym's wrappers around the environments that it makes."""


def make_old_gym(env_id: str, render_mode: str | None = None, **arguments: Any) -> Any:
    """Return an environment that is registered with gym.

    Gymnasium's TimeLimit replaces gym's wrappers, which expect five values per step.

    Args:
        env_id: id in gym's registry, or `module:ID` if importing the module registers
            it.
        render_mode: render mode of the environment; None for no pictures.
        arguments: keyword arguments of its constructor.
    Raises:
        UserError: gym is not installed, or has no such environment.
    """
    old_gym = _import(env_id)
    module, _, name = env_id.rpartition(":")
    if module:
        resolve_name(module)
    try:
        spec = old_gym.spec(name)
    except old_gym.error.Error as error:
        raise UserError(f"gym:{env_id} can't be made: {error}") from None
    limit = arguments.pop("max_episode_steps", spec.max_episode_steps)
    place = spec.entry_point
    creator = resolve_name(place) if isinstance(place, str) else place
    arguments = {**spec.kwargs, **arguments}
    if render_mode is not None and _takes(creator, "render_mode"):
        arguments["render_mode"] = render_mode
    factory.check_arguments(f"gym:{env_id}", creator, arguments)
    env = OldGymAdapter(f"gym:{env_id}", creator(**arguments), render_mode, str(place))
    return env if limit is None else gym.wrappers.TimeLimit(env, limit)


def adapt_made(env_id: str, env: Any, render_mode: str | None) -> gym.Env[Any, Any]:
    """Return an environment of gym that a user's factory made, for Gymnasium.

    Gymnasium's TimeLimit replaces gym's wrappers, as in `make_old_gym`; of several
    limits, the shortest one ends an episode.
    """
    _import(env_id)
    limits: list[int] = []
    while type(env).__name__ in _REPLACED and is_of(type(env).__module__, "gym"):
        limit = getattr(env, "_max_episode_steps", None)
        limits += [] if limit is None else [limit]
        env = env.env
    place = type(env.unwrapped).__module__
    adapted = OldGymAdapter(env_id, env, render_mode, place)
    return gym.wrappers.TimeLimit(adapted, min(limits)) if limits else adapted


def _import(env_id: str) -> Any:
    # gym 0.26 uses two names that NumPy 2 dropped.
    for name, kind in (("bool8", np.bool_), ("float_", np.float64)):
        if not hasattr(np, name):
            setattr(np, name, kind)
    try:
        with quiet_stderr():  # hides its deprecation banner
            import gym as old_gym
    except ImportError:
        raise UserError(
            f"gym:{env_id} needs the old gym: pip install 'xagents-ray[gym]'."
        ) from None
    return old_gym


class OldGymAdapter(gym.Env[Any, Any]):
    """Adapts an environment of gym 0.26 or older to Gymnasium's interface.

    Before gym 0.26, `step` returned four values with a single `done`, and `reset` one;
    before gym 0.22, seeding was a method, and `render` took the mode.

    Args:
        env_id: name of the environment, for messages.
        env: the environment of gym.
        render_mode: render mode of the environment; None for no pictures.
        entry_point: import path of the environment, which says whether it is gym's.
    """

    def __init__(
        self, env_id: str, env: Any, render_mode: str | None, entry_point: str
    ) -> None:
        self._id, self._env, self.render_mode = env_id, env, render_mode
        self.is_library = entry_point.startswith("gym.")
        self.metadata = dict(env.metadata)
        fps = self.metadata.get("video.frames_per_second")
        self.metadata.setdefault("render_fps", fps)
        self.observation_space = _space(env.observation_space)
        self.action_space = _space(env.action_space)
        own = getattr(env, "unwrapped", env)
        self._reset_takes = [n for n in ("seed", "options") if _takes(own.reset, n)]
        self._render_takes_mode = _takes(own.render, "mode")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode; return the first observation and the info."""
        super().reset(seed=seed)
        given = {"seed": seed, "options": options}
        is_old = "seed" not in self._reset_takes and hasattr(self._env, "seed")
        if seed is not None and is_old:
            self._env.seed(seed)
        found = self._env.reset(**{name: given[name] for name in self._reset_takes})
        is_pair = isinstance(found, tuple) and len(found) == 2
        return found if is_pair and isinstance(found[1], dict) else (found, {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step; split an old `done` flag by the info's `TimeLimit.truncated`."""
        found = self._env.step(action)
        if not isinstance(found, tuple) or len(found) not in (4, 5):
            count = len(found) if isinstance(found, tuple) else "no tuple of"
            what = f"step() returned {count} values"
            remedy = "return observation, reward, terminated, truncated, info"
            place = line_of(type(self._env).step)
            raise interface.env_fault(self._id, what, place, remedy)
        observation, reward, *ends, info = found
        if len(ends) == 1:
            is_cut = isinstance(info, dict) and bool(info.get("TimeLimit.truncated"))
            ends = [ends[0] and not is_cut, is_cut]
        return observation, float(reward), bool(ends[0]), bool(ends[1]), info

    def render(self) -> Any:
        mode = {"mode": self.render_mode} if self._render_takes_mode else {}
        return self._env.render(**mode)

    def close(self) -> None:
        self._env.close()


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function has a parameter, by name or through `**`."""
    parameters = inspect.signature(function).parameters
    kinds = [each.kind for each in parameters.values()]
    return name in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def _space(space: Any) -> gym.Space[Any]:
    """Convert a space of gym to one of Gymnasium."""
    kind, spaces = type(space).__name__, gym.spaces
    if kind == "Box":
        return spaces.Box(space.low, space.high, space.shape, space.dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(space.nvec)
    if kind == "MultiBinary":
        return spaces.MultiBinary(space.shape)
    if kind == "Tuple":
        return spaces.Tuple([_space(each) for each in space.spaces])
    if kind == "Dict":
        return spaces.Dict({name: _space(x) for name, x in space.spaces.items()})
    raise UserError(f"gym spaces of the kind {kind} are not supported.")
