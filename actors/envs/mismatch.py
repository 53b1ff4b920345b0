"""Why an observation is not in its space, in words."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.core.trajectory import Array

FINITE = "return finite numbers"
"""The remedy for other numbers."""


def find_mismatch(
    space: Any, value: Any, subject: str = "an observation"
) -> tuple[str, str] | None:
    """Return why an observation is not in its space, and a remedy; None if it is.

    Args:
        space: the space; in some spaces everything counts as an observation.
        value: the observation, or a part of it.
        subject: name of that part, such as `observation['camera']`.
    """
    if isinstance(space, gym.spaces.Box):  # first, since it is checked in each step
        return _box_mismatch(space, value, subject)
    if isinstance(space, gym.spaces.Dict):
        return _dict_mismatch(space, value, subject)
    if isinstance(space, gym.spaces.Tuple):
        count = len(space.spaces)
        if not isinstance(value, tuple | list) or len(value) != count:
            what = f"{subject} of {_kind(value)}"
            return what, f"observation_space is a Tuple of {count} there"
        pairs = enumerate(zip(space.spaces, value, strict=True))
        found = (find_mismatch(x, y, _part(subject, i)) for i, (x, y) in pairs)
        return next(filter(None, found), None)
    if isinstance(space, _WHOLE_NUMBERS) and not _is_within(space, value):
        return f"{subject} of {value!r:.60}", f"observation_space has {space} there"
    return None


_WHOLE_NUMBERS = gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary


def _dict_mismatch(
    space: gym.spaces.Dict, value: Any, name: str
) -> tuple[str, str] | None:
    spaces, keys = space.spaces, ", ".join(map(str, space.spaces))
    if not isinstance(value, Mapping):
        what = f"{name} of {_kind(value)}"
        return what, f"observation_space is a Dict of {keys} there"
    for missing in spaces.keys() - value.keys():
        return f"{name} without {missing!r}", f"observation_space has {keys}"
    for unknown in value.keys() - spaces.keys():
        return f"{name} with {unknown!r}", f"observation_space has only {keys}"
    pairs = ((x, value[key], _part(name, key)) for key, x in spaces.items())
    found = (find_mismatch(*each) for each in pairs)
    return next(filter(None, found), None)


def _box_mismatch(
    space: gym.spaces.Box, value: Any, name: str
) -> tuple[str, str] | None:
    try:
        found = np.asarray(value)
    except ValueError:  # lists of different lengths
        return f"{name} of {_kind(value)}", "return an array"
    if found.shape != space.shape:
        remedy = f"observation_space has {space.shape}: make them the same"
        return f"{name} of shape {found.shape}", remedy
    is_own = found.dtype == space.dtype
    if not (is_own or np.can_cast(found.dtype, space.dtype, "same_kind")):
        remedy = f"observation_space has {space.dtype}: make them the same"
        return f"{name} of {found.dtype} numbers", remedy
    if found.dtype.kind == "f" and np.count_nonzero(np.isfinite(found)) < found.size:
        return f"{name} of {not_finite(found)}", FINITE
    return None


def _is_within(space: Any, value: Any) -> bool:
    """Return whether whole numbers are in a space, also in another form than its own.

    One number may be an array of one.
    """
    try:
        found = np.asarray(value)
    except ValueError:  # lists of different lengths
        return False
    if found.size != np.prod(space.shape, dtype=int) or found.dtype.kind not in "biuf":
        return False
    if isinstance(space, gym.spaces.MultiBinary):
        return bool(((found == 0) | (found == 1)).all())
    if found.dtype.kind == "f":
        return False
    first = np.reshape(space.start, -1).astype(np.int64)
    count = space.n if isinstance(space, gym.spaces.Discrete) else space.nvec
    offsets = found.reshape(-1).astype(np.int64) - first
    return bool(((offsets >= 0) & (offsets < np.reshape(count, -1))).all())


def _part(name: str, key: Any) -> str:
    """Return the name of a part of an observation."""
    return f"{'observation' if name == 'an observation' else name}[{key!r}]"


def not_finite(numbers: Array) -> str:
    """Return the first number that is not finite."""
    return str(numbers[~np.isfinite(numbers)][0])


def _kind(value: Any) -> str:
    is_tuple = isinstance(value, tuple)
    return f"{len(value)} values" if is_tuple else f"one {type(value).__name__}"
