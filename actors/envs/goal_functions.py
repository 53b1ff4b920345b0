"""How an environment's functions of goals are called: for one step, or for many."""

import dis
from collections.abc import Callable, Collection, Sequence
from types import CodeType
from typing import Any

import numpy as np

from xagents_ray.actors.envs import interface
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.core.user_code import line_of

Infos = Sequence[dict[Any, Any]]
"""An `info` for each of N steps."""
GoalFunction = Callable[[FloatArray, FloatArray, Infos], Array]
"""Function of achieved and desired goals, float32 [N, G] each, and N infos."""


def vectorized(
    function: Callable[..., Any],
    achieved: FloatArray,
    desired: FloatArray,
    infos: Infos,
    read: Collection[Any],
) -> GoalFunction:
    """Return a vectorized form of a function that may accept only single rows.

    Unless it is constant, the function is tried on the given rows: on one at a time,
    then on all of them, with a list of infos if it reads any.

    Args:
        function: `compute_reward` or `compute_terminated` of an environment.
        achieved: float32 [N, G], achieved goals.
        desired: float32 [N, G], desired goals.
        infos: N infos.
        read: keys that the function reads, complete once it has been called.
    """

    def at_once(achieved: FloatArray, desired: FloatArray, infos: Infos) -> Array:
        return np.asarray(function(achieved, desired, infos[0]))

    def listed(achieved: FloatArray, desired: FloatArray, infos: Infos) -> Array:
        return np.asarray(function(achieved, desired, [*infos]))

    def by_rows(achieved: FloatArray, desired: FloatArray, infos: Infos) -> Array:
        rows = zip(achieved, desired, infos, strict=True)
        return np.array([_number(function, function(*row)) for row in rows])

    if _is_constant(function):
        return lambda achieved, *_: np.repeat(function(0, 0, {}), len(achieved))
    try:
        expected = by_rows(achieved, desired, infos)
    except Exception:  # raised by user code, which may expect many rows
        if _accepts(listed, achieved, desired, infos):
            return listed
        raise
    form = listed if read else at_once
    try:
        found = form(achieved, desired, infos)
    except Exception:  # raised by user code that expects one row
        return by_rows
    fits = found.shape == expected.shape and np.allclose(found, expected)
    return form if fits else by_rows


def _accepts(
    listed: GoalFunction, achieved: FloatArray, desired: FloatArray, infos: Infos
) -> bool:
    """Return whether a call with a list of infos works.

    Raises:
        KeyError: it does, but an info lacks a key.
    """
    try:
        return listed(achieved, desired, infos).shape == (len(infos),)
    except (KeyError, UserError):
        raise
    except Exception:  # raised by user code that expects one row
        return False


def _number(function: Callable[..., Any], returned: Any) -> Any:
    """Return the number that a function returned for one goal, also as an array."""
    number = np.asarray(returned)
    if number.size != 1:
        name = getattr(function, "__name__", "compute_reward")
        what = f"{name}() returned {returned!r:.60} for one goal"
        place = line_of(function)
        raise interface.flag_fault("--her", what, place, "return one number")
    return number.reshape(())


_READING_NOTHING = {"RESUME", "LOAD_CONST", "LOAD_SMALL_INT", "RETURN_VALUE"}
_READING_NOTHING |= {"RETURN_CONST", "NOP"}


def _is_constant(function: Callable[..., Any]) -> bool:
    """Return whether a function returns a constant and reads no argument.

    For example, `compute_terminated` of Gymnasium-Robotics is `return False`.
    """
    code = _code_of(function)
    if code is None:
        return False
    return {each.opname for each in dis.get_instructions(code)} <= _READING_NOTHING


def texts_in(function: Callable[..., Any]) -> set[Any]:
    """Return the strings in a function's code; some may be keys that it reads."""
    codes, texts = [_code_of(function)], set[Any]()
    while codes:
        constants = getattr(codes.pop(), "co_consts", ())
        codes += [each for each in constants if isinstance(each, CodeType)]
        texts |= {each for each in constants if isinstance(each, str)}
    return texts


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    return getattr(getattr(function, "__func__", function), "__code__", None)
