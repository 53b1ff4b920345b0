"""The user's wrappers around an environment, and the conversion of its spaces."""

import functools
import itertools
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import factory, interface
from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import Goals
from xagents_ray.core.trajectory import Array
from xagents_ray.core.user_code import importing_from_here, is_library, is_of, line_of
from xagents_ray.settings.options import flag
from xagents_ray.settings.training import EnvConfig

_NUMBERS = "biuf"


def wrap_env(env: gym.Env[Any, Any], config: EnvConfig) -> gym.Env[Any, Any]:
    """Return an environment with the wrappers of `config`, the first one innermost.

    Raises:
        UserError: a wrapper does not exist, or doesn't return an environment.
    """
    for name in config.wrappers or ():
        wrapper = _find("wrappers", name)
        subject, remedy = f"--wrappers {name}", "give a functools.partial from Python"
        factory.check_call(subject, wrapper, "an environment", remedy, env)
        with interface.errors_name_line(name, "--wrappers"):
            wrapped = wrapper(env)
        if not isinstance(wrapped, gym.Env):
            what, remedy = f"it returned {wrapped!r:.80}", "return a gymnasium.Wrapper"
            raise interface.flag_fault(subject, what, line_of(wrapper), remedy)
        env = wrapped
    return env


def transform_observations(env: gym.Env[Any, Any], name: str) -> gym.Env[Any, Any]:
    """Return an environment with a function applied to its observations.

    The new space is derived by applying the function to one sample: uint8 stays, other
    numbers become float32.

    Raises:
        UserError: the function does not exist, or doesn't return numbers.
    """
    function, subject = _find("state_to_input", name), f"--state-to-input {name}"
    sample = env.observation_space.sample()
    remedy = "give the others defaults"
    factory.check_call(subject, function, "an observation", remedy, sample)
    name_line = interface.errors_name_line(name, "--state-to-input")
    with np.errstate(all="ignore"), name_line:
        found = np.asarray(function(sample))
    if found.dtype.kind not in _NUMBERS:
        what, remedy = f"it returned {found!r:.80}", "return an array of numbers"
        raise interface.flag_fault(subject, what, line_of(function), remedy)
    is_bytes = found.dtype == np.uint8
    low, high, dtype = (0, 255, np.uint8) if is_bytes else (-np.inf, np.inf, np.float32)
    space = gym.spaces.Box(low, high, found.shape, dtype)
    call = functools.partial(_converted, function, None if is_bytes else np.float32)
    return gym.wrappers.TransformObservation(env, call, space)


class FlattenedEnv(gym.wrappers.FlattenObservation[Any, Any, Any]):
    """FlattenObservation that this package added, not the user."""


class FlattenedVector(gym.wrappers.vector.FlattenObservation):
    """FlattenObservation for vector environments, added by this package."""


def flatten_observations(env: Any) -> Any:
    """Return a single or vector environment with array observations.

    Gymnasium's wrapper flattens Dict, Tuple and discrete observations to vectors;
    spaces without a fixed size are left unchanged.
    """
    is_vector = isinstance(env, gym.vector.VectorEnv)
    name = "single_observation_space" if is_vector else "observation_space"
    space = getattr(env, name, None)
    has_size = isinstance(space, gym.Space) and space.is_np_flattenable
    if not has_size or isinstance(space, gym.spaces.Box | gym.spaces.Text):
        return env
    return FlattenedVector(env) if is_vector else FlattenedEnv(env)


_LEAST_SIDE = 5
"""Smallest last dimension that is not a number of channels."""
_MOST_CHANNELS = 35


class ChannelsLast(gym.ObservationWrapper[Array, Any, Array]):
    """Returns images [C, H, W] as [H, W, C]; added by this package, not the user."""

    def __init__(self, env: gym.Env[Array, Any]) -> None:
        super().__init__(env)
        self.observation_space = _channels_last_space(env.observation_space)

    def observation(self, observation: Array) -> Array:
        return np.moveaxis(np.asarray(observation), 0, -1)


class ChannelsLastVector(gym.vector.VectorWrapper):
    """Returns images [B, C, H, W] of a vector environment as [B, H, W, C]."""

    def __init__(self, envs: Any) -> None:
        super().__init__(envs)
        self.single_observation_space = _channels_last_space(
            envs.single_observation_space
        )
        self.observation_space = gym.vector.utils.batch_space(
            self.single_observation_space, envs.num_envs
        )

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Begin an episode in every environment."""
        images, infos = self.env.reset(seed=seed, options=options)
        return np.moveaxis(images, 1, -1), infos

    def step(self, actions: Any) -> Any:
        images, *results = self.env.step(actions)
        return np.moveaxis(images, 1, -1), *results


def with_channels_last(env: Any) -> Any:
    """Return a single or vector environment whose images are [H, W] or [H, W, C].

    The first of three dimensions is the number of channels if it is the smallest, and
    the last one is too large for one. If it is 1, the shape is left unchanged.
    """
    is_vector = isinstance(env, gym.vector.VectorEnv)
    name = "single_observation_space" if is_vector else "observation_space"
    space = getattr(env, name, None)
    if not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8:
        return env
    first, *sides = space.shape if len(space.shape) == 3 else (0, 0, 0)
    if not 1 < first <= min(_MOST_CHANNELS, *(side - 1 for side in sides)):
        return env
    if sides[-1] < _LEAST_SIDE:
        return env
    return ChannelsLastVector(env) if is_vector else ChannelsLast(env)


def has_channels_first(env: Any) -> bool:
    """Return whether `with_channels_last` changed a single or vector environment."""
    kinds = ChannelsLast | ChannelsLastVector
    return any(isinstance(layer, kinds) for layer in interface.wrapper_layers(env))


def _channels_last_space(space: Any) -> gym.spaces.Box:
    low, high = (np.moveaxis(bound, 0, -1) for bound in (space.low, space.high))
    return gym.spaces.Box(low, high, dtype=space.dtype.type)


def has_time_limit(env: Any) -> bool:
    """Return whether the episodes of a single or vector environment are known to end.

    They end under a TimeLimit, and in environments of Gymnasium, ALE and EnvPool.
    """
    layers = [*interface.wrapper_layers(env)]
    if isinstance(layers[-1], gym.vector.SyncVectorEnv):
        layers = [*interface.wrapper_layers(layers[-1].envs[0])]
    if any(isinstance(layer, gym.wrappers.TimeLimit) for layer in layers):
        return True
    module = type(layers[-1]).__module__
    is_known = is_library(module) or is_of(module, "envpool")
    is_known = getattr(layers[-1], "is_library", is_known)  # adapters of the old gym
    return is_known and not isinstance(layers[-1], gym.vector.AsyncVectorEnv)


def space_before_flattening(env: Any) -> gym.Space[Any] | None:
    """Return the space of one observation before flattening; None if unchanged."""
    if isinstance(env, FlattenedVector):
        return env.env.single_observation_space
    layers = interface.wrapper_layers(env) if isinstance(env, gym.Env) else ()
    found = [each for each in layers if isinstance(each, FlattenedEnv)]
    return found[0].env.observation_space if found else None


def goals_of(space: gym.Space[Any] | None) -> Goals | None:
    """Return the positions of the goals in flattened observations of a space.

    Return None unless it is the space of a goal environment: a Dict of `observation`,
    `achieved_goal` and `desired_goal`, with goal vectors of the same size.
    """
    if not isinstance(space, gym.spaces.Dict):
        return None
    sizes = {name: gym.spaces.flatdim(each) for name, each in space.items()}
    if not {"observation", "achieved_goal", "desired_goal"} <= sizes.keys():
        return None
    size, names = sizes["achieved_goal"], ("achieved_goal", "desired_goal")
    if {space[name].shape for name in names} != {(size,)}:
        return None
    ends = dict(zip(sizes, itertools.accumulate(sizes.values()), strict=True))
    achieved, desired = (ends[name] - size for name in names)
    return Goals(achieved, desired, size)


def _converted(function: Callable[[Any], Any], dtype: Any, observation: Any) -> Array:
    return np.asarray(function(observation), dtype)


def _find(setting: str, name: str) -> Callable[..., Any]:
    """Return the object that a setting names: passed from Python, or `module:name`."""
    kept = objects.find_kept(setting, name)
    if kept is None and not {".", ":"} & {*name}:
        raise UserError(
            f"{flag(setting)} {name} is not of the form module:name; write it so, or "
            "pass the object of this name from Python again."
        )
    try:
        with importing_from_here():
            found = resolve_name(name) if kept is None else kept
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"{flag(setting)} {name} can't be imported ({error}): write module:name, "
            "and start in the directory that holds the module."
        ) from None
    if not callable(found):
        raise UserError(
            f"{flag(setting)} {name} is {found!r:.80}: name a class or a function."
        )
    return found  # type: ignore[no-any-return]


def action_converter(space: Any) -> Callable[[Array], Array]:
    """Return a function from a policy's actions, [B] or [B, A], to those of a space."""
    shape, dtype = space.shape, space.dtype
    if isinstance(space, gym.spaces.Box):
        low, high = space.low, space.high
        if has_integers(space):
            return lambda actions: _nearest(actions.reshape(-1, *shape), low, high)
        return lambda actions: np.clip(
            actions.astype(dtype).reshape(-1, *shape), low, high
        )
    start = getattr(space, "start", 0)
    return lambda actions: actions.astype(dtype).reshape(-1, *shape) + start


def action_bounds(
    actions: gym.spaces.Box,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the bounds of the policy's actions.

    The largest float32 means unbounded, as in the old gym. Bounds of integers lie 0.5
    outside those of the space, so each integer is the nearest one on a range of 1.
    """
    largest = np.finfo(np.float32).max
    margin = 0.5 if has_integers(actions) else 0.0
    low = actions.low.astype(np.float64) - margin
    high = actions.high.astype(np.float64) + margin
    low[~actions.bounded_below | (low <= -largest)] = -np.inf
    high[~actions.bounded_above | (high >= largest)] = np.inf
    return tuple(low.tolist()), tuple(high.tolist())


def has_integers(space: gym.spaces.Box) -> bool:
    """Return whether a Box has an integer dtype, or bool."""
    return space.dtype is not None and space.dtype.kind in "biu"


def _nearest(actions: Array, low: Array, high: Array) -> Array:
    """Return the nearest integers [B, A] from `low` to `high`, in the dtype of both.

    float64 can't represent all bounds of 64 bits, so bounds are taken as they are.
    """
    nearest = np.rint(actions.astype(np.float64))
    is_inside = (low < nearest) & (nearest < high)
    inside = np.where(is_inside, nearest, 0).astype(low.dtype)
    return np.where(is_inside, inside, np.where(nearest > low, high, low))
