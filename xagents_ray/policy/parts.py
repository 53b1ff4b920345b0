"""Dict and Tuple observations that a user passes, as arrays by the inputs' names."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatten

from xagents_ray.actors.envs.named_inputs import Part, parts_of
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array


class PartReader:
    """Reads the parts of observations, or of batches of them.

    Args:
        env_id: ID of the environment.
        space: Dict or Tuple space of one observation of the environment.
        unread: names of inputs that observations need not have; they are zeros then.
    """

    def __init__(self, env_id: str, space: Any, unread: Collection[str] = ()) -> None:
        self._env_id, self._space, self._unread = env_id, space, unread
        self._parts = [*parts_of(space)]

    def takes(self, observation: Any) -> bool:
        """Return whether a value is in parts: a dict, or a tuple of a Tuple space."""
        if not isinstance(observation, tuple):
            return isinstance(observation, Mapping)
        if self._space.contains(observation):
            return True
        is_result = bool(observation) and isinstance(observation[-1], dict)
        return any(part.is_image for part in self._parts) and not is_result

    def arrays(self, observation: Any, stack: int) -> tuple[dict[str, Array], bool]:
        """Return the arrays of a batch, and whether it was a single observation.

        Args:
            observation: parts by the names of the inputs, or as the environment gives
                them.
            stack: number of frames per image; images have no such dimension if it is 1.
        Returns:
            uint8 [B, H, W(, C)] or [B, stack, H, W(, C)], and float32 [B, D], by name.
        Raises:
            UserError: a part is missing or doesn't fit; the message names it.
        """
        found: dict[str, Array] = {}
        batches: list[tuple[str, Part, Any, int]] = []
        for part in self._parts:
            place, value = self._find(observation, part)
            if not place:
                continue
            array = (
                _image(part, value, stack) if part.is_image else _vector(part, value)
            )
            if array is None:
                raise self._misfit(place, part, value, stack)
            shape = _shape(part, stack)
            if array.ndim > len(shape):
                batches.append((place, part, value, len(array)))
            found[part.name] = array.reshape(-1, *shape)
        count = batches[0][-1] if batches else 1
        for place, part, value, size in batches:
            if size != count or len(batches) < len(found):
                raise self._misfit(place, part, value, stack)
        for part in self._parts:
            if part.name not in found:
                dtype = np.uint8 if part.is_image else np.float32
                found[part.name] = np.zeros((count, *_shape(part, stack)), dtype)
        return found, not batches

    def _find(self, observation: Any, part: Part) -> tuple[str, Any]:
        """Return where a part is, `observation['camera']`, and its value.

        The place is "" if the part is missing and need not be there.
        """
        if isinstance(observation, Mapping) and part.name in observation:
            return f"observation[{part.name!r}]", observation[part.name]
        place, value, space = "observation", observation, self._space
        for key in part.keys:
            place = f"{place}[{key!r}]"
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                if part.name in self._unread:
                    return "", None
                own = space if isinstance(space, gym.spaces.Dict) else range(len(space))
                keys = ", ".join(str(x) for x in own if str(x) not in self._unread)
                raise UserError(
                    f"{place} is missing: pass all of {keys}, as {self._env_id} gives "
                    "them."
                ) from None
            space = space[key]
        return place, value

    def _misfit(self, place: str, part: Part, value: Any, stack: int) -> UserError:
        frames = f", in stacks of {stack}" if stack > 1 and part.is_image else ""
        found, array = short(value), numbers_of(value)
        if part.is_image and array is not None:
            found = f"{array.dtype} {array.shape}"
        return UserError(
            f"{place} is {found}, and {self._env_id} gives {part.space} there"
            f"{frames}: pass one observation as the environment gives it, or a batch "
            "of make_env()'s."
        )


def _shape(part: Part, stack: int) -> tuple[int, ...]:
    """Return the shape of one observation's array."""
    return (stack, *part.shape) if stack > 1 and part.is_image else part.shape


def _image(part: Part, value: Any, stack: int) -> Array | None:
    """Return frames or a batch of them; None if the value doesn't fit."""
    array, shape = numbers_of(value), _shape(part, stack)
    if array is None or array.dtype.kind not in "biu" or not array.size:
        return None
    own = part.space.shape
    if part.has_channels_first and array.shape[-3:] == own:
        array = np.moveaxis(array, -3, -1)
    elif array.shape[-len(own) :] == own:  # perhaps with one gray channel in front
        array = array.reshape(*array.shape[: -len(own)], *part.shape)
    is_one_or_batch = len(shape) <= array.ndim <= len(shape) + 1
    fits = is_one_or_batch and array.shape[-len(shape) :] == shape
    return array.astype(np.uint8, copy=False) if fits else None


def _vector(part: Part, value: Any) -> Array | None:
    """Return float32 [D] or [B, D]; None if the value doesn't fit.

    Whole numbers, such as those of a Discrete space, may also be flat, if they are
    floats.
    """
    array, space, own = numbers_of(value), part.space, part.space.shape
    is_box = isinstance(space, gym.spaces.Box)
    if not is_box and space.contains(value):
        return np.asarray(flatten(space, value), np.float32)
    if array is None or not array.size:
        return None
    is_batch = array.ndim > 0 and array.shape[1:] == own
    if is_box and (is_batch or array.shape == own):
        return array.reshape(*array.shape[:is_batch], *part.shape).astype(np.float32)
    if is_batch and array.dtype.kind != "f":
        rows: list[Any] = [flatten(space, row) for row in array if space.contains(row)]
        return np.stack(rows).astype(np.float32) if len(rows) == len(array) else None
    is_flat = array.ndim in (1, 2) and array.shape[-1:] == part.shape
    is_float = is_box or array.dtype.kind == "f"
    return array.astype(np.float32) if is_flat and is_float else None


def numbers_of(value: Any) -> Array | None:
    """Return a value as an array; None if it isn't numeric."""
    with suppress(ValueError):  # lists of different lengths
        array = np.asarray(value)
        return array if array.dtype.kind in "biuf" else None
    return None


def short(value: Any) -> str:
    """Return the beginning of a value's repr on one line."""
    return f"{' '.join(repr(value).split()):.80}"
