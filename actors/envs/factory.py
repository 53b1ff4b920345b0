"""Calls user-defined classes and functions that make environments."""

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym

from xagents_ray.actors.envs import interface
from xagents_ray.core.errors import UserError
from xagents_ray.core.user_code import line_of

_INDEX = ("index", "i", "idx", "rank", "env_index")
Factory = Callable[..., Any]


def makes_vectors(factory: Factory) -> bool:
    """Return whether a factory makes vector environments, that is, takes `num_envs`."""
    return "num_envs" in _signature(factory).parameters


def call_factory(
    env: str,
    factory: Factory,
    arguments: Mapping[str, Any],
    index: int,
    render_mode: str | None = None,
) -> Any:
    """Return the environment of Gymnasium or the old gym that a factory makes.

    Args:
        env: name of the environment.
        factory: the class or function that makes it.
        arguments: keyword arguments of the factory.
        index: index of the environment, unique among those that are open; passed if the
            factory requires an argument `index`, `i`, `idx`, `rank` or `env_index`.
        render_mode: passed on if the factory takes a render mode.
    Raises:
        EnvironmentFault: the factory can't take the arguments, or returns no
            environment.
    """
    given = {**_index_arguments(factory, index), **arguments}
    made = _call(env, factory, given, render_mode)
    of_old_gym = getattr(sys.modules.get("gym"), "Env", ())
    if isinstance(made, gym.Env) or isinstance(made, of_old_gym):
        return made
    remedy = "return a gymnasium.Env"
    if isinstance(made, gym.vector.VectorEnv):
        remedy = "take the number of environments as an argument num_envs"
    raise _wrong_kind(env, factory, made, remedy)


def call_vector_factory(
    env: str,
    factory: Factory,
    arguments: Mapping[str, Any],
    n_envs: int,
    first_index: int,
    render_mode: str | None = None,
) -> Any:
    """Return the vector environment that a factory makes; see `call_factory`.

    The index that it gets is that of its first environment; the others follow.
    """
    indices = _index_arguments(factory, first_index)
    given = {**indices, "num_envs": n_envs, **arguments}
    made = _call(env, factory, given, render_mode)
    if not isinstance(made, gym.vector.VectorEnv):
        raise _wrong_kind(env, factory, made, "return a gymnasium.vector.VectorEnv")
    if made.num_envs != n_envs:
        what = f"its factory made {made.num_envs} environments of {n_envs}"
        raise interface.env_fault(env, what, line_of(factory), "make num_envs")
    return made


def check_call(
    subject: str, function: Factory, given: str, remedy: str, *args: Any, **kwargs: Any
) -> None:
    """Check that a function can be called with the given arguments.

    Args:
        subject: the flag and its value, which name the function.
        function: the user-defined function.
        given: the arguments in words, for the message.
        remedy: remedy for missing arguments, for the message.
        args: the arguments, in order.
        kwargs: the arguments, by name.
    Raises:
        EnvironmentFault: the function can't be called with these arguments.
    """
    try:
        _signature(function).bind(*args, **kwargs)
    except TypeError as error:
        is_missing = "missing" in str(error)
        what = f"it is called with {given} and {'is ' if is_missing else ''}{error}"
        remedy = remedy if is_missing else "change what it takes, or what it is given"
        raise interface.flag_fault(subject, what, line_of(function), remedy) from None


def check_arguments(env: str, factory: Factory, arguments: Mapping[str, Any]) -> None:
    """Check that a factory takes the given arguments; see `check_call`."""
    shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    given = f"({shown})" if shown else "no arguments"
    remedy = "give them defaults, or values with --env-kwargs"
    check_call(f"--env {env}", factory, given, remedy, **arguments)


def _index_arguments(factory: Factory, index: int) -> dict[str, int]:
    """Return the index by the name under which a factory requires it, if it does."""
    required = _signature(factory).parameters.values()
    return {
        p.name: index for p in required if p.name in _INDEX and p.default is p.empty
    }


def _call(
    env: str, factory: Factory, arguments: Mapping[str, Any], render_mode: str | None
) -> Any:
    check_arguments(env, factory, arguments)
    parameters = _signature(factory).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    offered = {}
    if render_mode and (takes_any or "render_mode" in parameters):
        offered["render_mode"] = render_mode
    return factory(**{**arguments, **offered})


def _wrong_kind(env: str, factory: Factory, made: Any, remedy: str) -> UserError:
    what = f"its factory returned {made!r:.80}"
    return interface.env_fault(env, what, line_of(factory), remedy)


def _signature(function: Factory) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have none
        anything = inspect.Parameter("given", inspect.Parameter.VAR_POSITIONAL)
        by_name = inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)
        return inspect.Signature([anything, by_name])
