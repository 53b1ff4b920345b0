"""The user's wrappers around an environment, and the conversion of its spaces."""

import functools
from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any, TypeGuard

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs import factory, interface
from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
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
    numbers become float32. A function that returns a dict gives named arrays.

    Raises:
        UserError: the function does not exist, or doesn't return numbers.
    """
    function, subject = _find("state_to_input", name), f"--state-to-input {name}"
    sample = env.observation_space.sample()
    remedy = "give the others defaults"
    factory.check_call(subject, function, "an observation", remedy, sample)
    name_line = interface.errors_name_line(name, "--state-to-input")
    with np.errstate(all="ignore"), name_line:
        returned = function(sample)
    space = _space_of(returned)
    if space is None:
        shown = " ".join(repr(returned).split())
        what, remedy = f"it returned {shown:.80}", "return an array of numbers"
        raise interface.flag_fault(subject, what, line_of(function), remedy)
    call = functools.partial(_converted, function, space)
    return gym.wrappers.TransformObservation(env, call, space)


def _space_of(returned: Any) -> gym.Space[Any] | None:
    """Return the space of an array, or a dict of them; None if there are others."""
    if isinstance(returned, Mapping):
        spaces = {str(key): _space_of(each) for key, each in returned.items()}
        known = [(key, each) for key, each in spaces.items() if each is not None]
        return gym.spaces.Dict(known) if known and len(known) == len(spaces) else None
    try:
        found = np.asarray(returned)
    except ValueError:  # lists of different lengths
        return None
    if found.dtype.kind not in _NUMBERS:
        return None
    if found.dtype == np.uint8:
        return gym.spaces.Box(0, 255, found.shape, np.uint8)
    return gym.spaces.Box(-np.inf, np.inf, found.shape, np.float32)


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
    if not is_image(space) or not come_channels_first(space.shape):
        return env
    return ChannelsLastVector(env) if is_vector else ChannelsLast(env)


def is_image(space: Any) -> TypeGuard[gym.spaces.Box]:
    """Return whether the arrays of a space are frames: uint8 of 2 or 3 dimensions."""
    is_bytes = isinstance(space, gym.spaces.Box) and space.dtype == np.uint8
    return is_bytes and len(space.shape) in (2, 3)


def come_channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether frames of a shape are [C, H, W]; see `with_channels_last`."""
    if len(shape) != 3:
        return False
    channels, *sides = shape
    if not 1 < channels <= min(_MOST_CHANNELS, *(side - 1 for side in sides)):
        return False
    return sides[-1] >= _LEAST_SIDE


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


def _converted(function: Callable[[Any], Any], space: Any, observation: Any) -> Any:
    """Return a function's result for an observation, of the dtypes in a space."""
    return _of_dtypes(space, function(observation))


def _of_dtypes(space: Any, value: Any) -> Any:
    if isinstance(space, gym.spaces.Dict) and isinstance(value, Mapping):
        pairs = ((str(key), each) for key, each in value.items())
        return {key: _of_dtypes(space.spaces.get(key), each) for key, each in pairs}
    # Anything else is checked against its space.
    is_float = isinstance(space, gym.spaces.Box) and space.dtype == np.float32
    return np.asarray(value, np.float32 if is_float else None)


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
