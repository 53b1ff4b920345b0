"""Checks that a user's environment follows Gymnasium's interface.

Each fault is reported in one sentence with the file and line of the user's code.
"""

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import gymnasium as gym
import numpy as np

from xagents_ray.actors.envs.mismatch import FINITE, find_mismatch, not_finite
from xagents_ray.core.errors import (
    Diverged,
    EnvironmentFault,
    Stopped,
    UserError,
    one_line,
    shortage,
)
from xagents_ray.core.trajectory import Array
from xagents_ray.core.user_code import (
    is_library,
    is_of,
    line_of,
    place_that_raised,
    traceback_of,
)

_RESET = "def reset(self, *, seed=None, options=None)"
_RETURNS = {
    "reset": ("observation", "info"),
    "step": ("observation", "reward", "terminated", "truncated", "info"),
}


class InterfaceCheck(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper that checks what a user-defined environment returns.

    Raises:
        EnvironmentFault: also from `reset` and `step`, if the environment breaks
            Gymnasium's interface.
    """

    def __init__(self, env: gym.Env[Any, Any], env_id: str) -> None:
        super().__init__(env)
        self._id = env_id
        for name in ("observation_space", "action_space"):
            if not isinstance(getattr(env, name, None), gym.Space):
                place = method_line(env, "__init__")
                what = f"its {name} is not a space of gymnasium.spaces"
                raise env_fault(env_id, what, place, "set one when it is made")
        self._parameters = _named(env)
        self._space = env.observation_space  # read once: each wrapper asks the next

    def reset(self, **given: Any) -> Any:
        """Return the first observation and the info."""
        missing = {"seed", "options"} - self._parameters
        if missing:
            what = f"reset() takes no {' and no '.join(sorted(missing, reverse=True))}"
            raise self._fault("reset", what, f"write {_RESET}")
        try:
            result = self.env.reset(**given)
        except Exception as error:
            self._explain("reset", error)
            raise
        self._check("reset", result)
        return result

    def step(self, action: Any) -> Any:
        try:
            result = self.env.step(action)
        except Exception as error:
            self._explain("step", error)
            raise
        self._check("step", result)
        try:
            float(result[1])
        except (TypeError, ValueError):
            what = f"step() returned {result[1]!r} as the reward"
            raise self._fault("step", what, "return a number") from None
        return result

    def _explain(self, name: str, error: Exception) -> None:
        """Raise EnvironmentFault for an error raised by Gymnasium's wrappers."""
        if isinstance(error, UserError | Diverged | Stopped):
            return
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        module = frame.f_globals.get("__name__", "")
        if module == __name__ or is_of(module, "gymnasium"):
            what = f"{name}() led to {one_line(error)}"
            remedy = "see Gymnasium's interface, gymnasium.farama.org/api/env"
            raise self._fault(name, what, remedy, traceback_of(error)) from error

    def _check(self, name: str, result: Any) -> None:
        """Check the number of returned values, the observation and the info."""
        values = _RETURNS[name]
        if not isinstance(result, tuple) or len(result) != len(values):
            what = f"{name}() returned {_described(result)}"
            raise self._fault(name, what, f"return {', '.join(values)}")
        if not isinstance(result[-1], dict):
            what = f"{name}() returned {_described(result[-1])} as the info"
            raise self._fault(name, what, "return a dict")
        found = find_mismatch(self._space, result[0])
        if found is not None:
            what, remedy = found
            raise self._fault(name, f"{name}() gave {what}", remedy)

    def _fault(
        self, name: str, what: str, remedy: str, trace: str = ""
    ) -> EnvironmentFault:
        return env_fault(self._id, what, method_line(self.env, name), remedy, trace)


class VectorCheck(gym.vector.VectorWrapper):
    """Wrapper that checks the observations of a user's vector environment.

    Raises:
        EnvironmentFault: from `reset` and `step`, if one is not in its space.
    """

    def __init__(self, envs: Any, env_id: str) -> None:
        super().__init__(envs)
        self._id = env_id

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Begin an episode in every environment."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._check("reset", observations)
        return observations, infos

    def step(self, actions: Any) -> Any:
        observations, *results = self.env.step(actions)
        self._check("step", observations)
        return observations, *results

    def _check(self, name: str, observations: Any) -> None:
        found = find_mismatch(self.env.observation_space, observations)
        if found is not None:
            what, remedy = found
            place = method_line(self.env, name)
            raise env_fault(self._id, f"{name}() gave {what}", place, remedy)


def check_observations(env_id: str, env: gym.Env[Any, Any] | None, rows: Array) -> None:
    """Raise EnvironmentFault if an observation is not finite.

    `env`, an instance of the environment if this process has one, locates the fault in
    the user's code.
    """
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        place = "" if env is None else method_line(env, "step")
        what = f"it gave an observation of {not_finite(rows)}"
        raise env_fault(env_id, what, place, FINITE)


def env_fault(
    env_id: str, what: str, place: str, remedy: str, trace: str = ""
) -> EnvironmentFault:
    """Return the error for an environment that breaks Gymnasium's interface."""
    return flag_fault(f"--env {env_id}", what, place, remedy, trace)


def flag_fault(
    subject: str, what: str, place: str, remedy: str, trace: str = ""
) -> EnvironmentFault:
    """Return the error for a user-defined object that a flag names."""
    where = f" ({place})" if place else ""
    end = "" if remedy.endswith("?") else "."
    return EnvironmentFault(f"{subject}: {what}{where}; {remedy}{end}", trace)


@contextmanager
def errors_name_line(name: str, flag: str = "--env") -> Iterator[None]:
    """Turn an error in the user's code into one sentence with flag, file and line.

    Args:
        name: value of the flag, or without a flag the name of a function.
        flag: flag that named the code; "" for code that only Python can pass.
    """
    try:
        yield
    except (UserError, Diverged, Stopped, gym.error.Error):
        raise
    except Exception as error:
        place = place_that_raised(error)
        if not place or shortage(error):  # the machine's, not a mistake in the code
            raise
        subject, remedy = name, "fix it there"
        if flag:
            subject = f"{flag} {name}"
            remedy += "; --traceback shows the traceback"
        what, trace = one_line(error), traceback_of(error)
        raise flag_fault(subject, what, place, remedy, trace) from error


def method_line(env: Any, name: str) -> str:
    """Return `file, line N` of a user's method, or else class; "" for a library's."""
    for layer in wrapper_layers(env):
        function = getattr(type(layer), name, None)
        if isinstance(function, FunctionType) and not is_library(function.__module__):
            return line_of(function)
    kind = type(layer)
    return "" if is_library(kind.__module__) else line_of(kind)


def wrapper_layers(env: Any) -> Iterator[Any]:
    """Yield an environment's wrappers, outermost first, then the environment itself.

    The environment may be a vector environment; those within it are not yielded.
    """
    while isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
        yield env
        env = env.env
    yield env


def _named(env: gym.Env[Any, Any]) -> set[str]:
    """Return which of `seed` and `options` the reset of every layer accepts."""
    names = {"seed", "options"}
    for layer in wrapper_layers(env):
        parameters = inspect.signature(type(layer).reset).parameters
        kinds = {each.kind for each in parameters.values()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            names &= parameters.keys()
    return names


def _described(result: Any) -> str:
    is_tuple = isinstance(result, tuple)
    return f"{len(result)} values" if is_tuple else f"one {type(result).__name__}"
