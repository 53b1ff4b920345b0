"""Converts an environment's observations to network input, and actions back."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, stack_frames
from xagents_ray.settings.training import EnvConfig

if TYPE_CHECKING:
    import gymnasium as gym


class Conversion:
    """Converts the observations and actions of one environment.

    Args:
        env_id: ID of the environment.
        spec: specification of the environment.
        observations: Gymnasium space of one observation, without stacked frames.
        actions: Gymnasium space of one action.
        own: space of one observation before flattening; None if it isn't flattened.
    Attributes:
        spaces: spaces of observations, with stacked frames, and of actions.
    """

    def __init__(
        self, env_id: str, spec: EnvSpec, observations: Any, actions: Any, own: Any
    ) -> None:
        from gymnasium.spaces.utils import flatten
        from gymnasium.vector.utils import batch_space

        from xagents_ray.actors.envs.wrapping import action_converter

        if spec.stack > 1:
            observations = batch_space(observations, spec.stack)
        self._env_id, self._spec, self._shape = env_id, spec, observations.shape
        self.spaces = observations, actions
        self.actions = action_converter(actions)
        self._own, self._flatten = own, flatten
        *sides, channels = spec.observation_shape
        # Shape of the environment's own images if their channels come first.
        self._own_image = (channels, *sides) if spec.channels_first else ()

    @classmethod
    def of(cls, config: EnvConfig, spec: EnvSpec) -> "Conversion":
        """Return the conversion for an environment; makes one to get its spaces."""
        from xagents_ray.actors.envs.indices import next_own_index
        from xagents_ray.actors.envs.make import make_one

        envs = make_one(config, None, next_own_index(config))
        envs.close()
        return cls(str(config.env), spec, *envs.spaces, envs.flattened)

    def array(self, observation: Any) -> Array:
        """Return an observation of the environment, or a batch, as an array.

        Images [C, H, W] become [H, W, C].

        Raises:
            UserError: the value includes other results of `reset` or `step`, isn't
                numeric, or has a part that doesn't fit the environment's space.
        """
        own = self._own
        if own is not None and isinstance(observation, dict):
            observation = self._flatten(own, _fitted(own, observation, self._env_id))
        elif own is not None and own.contains(observation):
            observation = self._flatten(own, observation)
        elif _has_info(observation):
            raise UserError(
                "This is the whole tuple that reset() or step() returned: pass the "
                "observation alone, as in env.reset()[0]."
            )
        array = _numbers(observation)
        if array is None:
            raise UserError(
                f"An observation of {self._env_id} is an array of numbers, and this "
                f"one is {_short(observation)}: pass what the environment of "
                "make_env() gives."
            )
        if self._own_image and array.shape[-3:] == self._own_image:
            return np.moveaxis(array, -3, -1)
        return array

    def rows(self, observation: Any) -> tuple[Array, bool]:
        """Return the network's input [B, ...], and whether it was a single observation.

        Raises:
            UserError: the shape or type doesn't fit the environment, or there is a NaN.
        """
        spec, array = self._spec, self.array(observation)
        is_single = array.shape == self._shape
        if not (is_single or (array.shape[1:] == self._shape and len(array))):
            raise UserError(
                f"An observation of {self._env_id} has the shape {self._shape}, a "
                f"batch [B, …] of that, and this one has {array.shape}: pass what the "
                "environment of make_env() gives."
            )
        if spec.observation_dtype == "uint8" and array.dtype.kind == "f":
            raise UserError(
                f"Observations of {self._env_id} are uint8, from 0 to 255, and this "
                f"one is {array.dtype}: pass them as they come, without scaling."
            )
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise UserError(
                f"This observation of {self._env_id} contains NaN, from which a "
                "network computes only NaN: replace it, or find where it comes from."
            )
        count = 1 if is_single else len(array)
        rows = array.astype(spec.observation_dtype, copy=False)
        if not spec.is_image:
            return rows.reshape(count, *spec.observation_shape), is_single
        frames = rows.reshape(count, spec.stack, *spec.observation_shape).swapaxes(0, 1)
        return stack_frames(frames, np.zeros(frames.shape[:2], np.bool_)), is_single


def make_env(config: EnvConfig) -> tuple["gym.Env[Any, Any]", EnvSpec]:
    """Return an environment as a policy sees it, with stacked frames, and its spec.

    Raises:
        UserError: the environment doesn't exist, or no algorithm supports it.
    """
    from xagents_ray.actors.envs.indices import next_own_index
    from xagents_ray.actors.envs.make import make_stacked, probe

    spec = probe(config, index=next_own_index(config))
    return make_stacked(config, spec.stack, None), spec


def _has_info(value: Any) -> bool:
    """Return whether a value looks like the result of `reset` or `step`."""
    return isinstance(value, tuple) and len(value) > 1 and isinstance(value[-1], dict)


def _fitted(space: Any, value: Any, env_id: str, place: str = "observation") -> Any:
    """Return a value converted to the types of its space.

    Raises:
        UserError: a part of it is missing or doesn't fit; the message names the part.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Dict) and isinstance(value, dict):
        if missing := [key for key in space if key not in value]:
            raise UserError(
                f"{place}[{missing[0]!r}] is missing: pass all of "
                f"{', '.join(map(str, space))}, as {env_id} gives them."
            )
        parts = {key: f"{place}[{key!r}]" for key in space}
        return {k: _fitted(space[k], value[k], env_id, parts[k]) for k in parts}
    if isinstance(space, spaces.Box):
        array = _numbers(value)
        if array is not None and array.shape == space.shape:
            if np.can_cast(array.dtype, space.dtype, "same_kind"):
                return array.astype(space.dtype, copy=False)
    elif space.contains(value):
        return value
    raise UserError(
        f"{place} is {_short(value)}, and {env_id} gives {space} there: pass one "
        "observation as the environment gives it, or a batch of make_env()'s."
    )


def _numbers(value: Any) -> Array | None:
    """Return a value as an array; None if it isn't numeric."""
    with suppress(ValueError):  # lists of different lengths
        array = np.asarray(value)
        return array if array.dtype.kind in "biuf" else None
    return None


def _short(value: Any) -> str:
    """Return the beginning of a value's repr on one line."""
    return f"{' '.join(repr(value).split()):.80}"
