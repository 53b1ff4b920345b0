"""Calls a user's class or function that makes environments."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym

from xagents_ray.actors.envs import interface
from xagents_ray.core.user_code import line_of


def call(
    env_id: str,
    factory: Callable[..., Any],
    arguments: Mapping[str, Any],
    render_mode: str | None = None,
) -> gym.Env[Any, Any]:
    """Return what a factory makes; `render_mode` is given if there is one.

    Raises:
        EnvironmentFault: it doesn't take these arguments, or makes something else.
    """
    parameters = _check_call(env_id, factory, arguments)
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    offered = {}
    if render_mode and (takes_any or "render_mode" in parameters):
        offered["render_mode"] = render_mode
    made = factory(**{**arguments, **offered})
    if isinstance(made, gym.Env):
        return made
    what, place = f"its factory returned {made!r:.80}", line_of(factory)
    raise interface.fault(env_id, what, place, "return a gymnasium.Env")


def _check_call(
    env_id: str, factory: Callable[..., Any], arguments: Mapping[str, Any]
) -> Mapping[str, inspect.Parameter]:
    """Return a factory's parameters, if it can be called with these arguments."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # some that are written in C have none
        return {}
    try:
        signature.bind(**arguments)
    except TypeError as error:
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        what = f"its factory is called with ({given}) and is {error}"
        remedy = "give them defaults, or values with --env-kwargs"
        if not arguments:
            what = f"its factory is called without arguments and is {error}"
        elif "missing" not in str(error):
            what, remedy = f"its factory {error}", "change --env-kwargs"
        place = line_of(factory)
        raise interface.fault(env_id, what, place, remedy) from None
    return signature.parameters
