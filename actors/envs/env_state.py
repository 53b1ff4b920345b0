"""The state of environments as JSON: all that future episodes depend on."""

import base64
import json
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs import classic_control as classic
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import SyncVectorEnv

from xagents_ray.actors.envs import (
    action_masks,
    atari,
    interface,
    named_inputs,
    wrapping,
)
from xagents_ray.actors.envs.vector_forms import SyncEnvs
from xagents_ray.core.trajectory import Array, Observations, map_array

# By exact type, since a subclass may have more state. Attributes that only rendering
# or checks read, or that don't change after a reset, are not listed.
_ATTRIBUTES: dict[type, tuple[str, ...]] = {
    SyncVectorEnv: ("_autoreset_envs",),
    SyncEnvs: ("_autoreset_envs",),
    CartPoleVectorEnv: ("state", "steps", "prev_done"),
    classic.CartPoleEnv: ("state",),
    classic.PendulumEnv: ("state",),
    classic.AcrobotEnv: ("state",),
    classic.MountainCarEnv: ("state",),
    classic.Continuous_MountainCarEnv: ("state",),
    gym.wrappers.TimeLimit: ("_elapsed_steps",),
    gym.wrappers.OrderEnforcing: (),
    gym.wrappers.PassiveEnvChecker: (),
    gym.wrappers.FlattenObservation: (),
    gym.wrappers.TransformObservation: (),
    gym.wrappers.ClipAction: (),
    gym.wrappers.RescaleAction: (),
    atari.AtariPreprocessing: (),
    gym.wrappers.NormalizeObservation: (),  # their statistics come with the weights
    gym.wrappers.NormalizeReward: ("discounted_reward",),
    named_inputs.FlattenedEnv: (),
    named_inputs.NamedInputs: (),
    wrapping.ChannelsLast: (),
    action_masks.ReportedMasks: (),
    action_masks.ObservedMasks: (),
}

_STATELESS = (
    action_masks.VectorMasks,
    interface.VectorCheck,
    named_inputs.FlattenedVector,
    named_inputs.NamedVectorInputs,
    wrapping.ChannelsLastVector,
)
"""Our wrappers around a user's vector environment, which have no state."""


def get_envs_state(envs: Any) -> list[dict[str, Any]] | None:
    """Return the state of a vector environment that was reset, as JSON.

    Supported are Gymnasium's classic control environments, and environments and
    wrappers that define `get_state()`, which returns JSON-serializable values, and
    `set_state(state)`; in a SyncVectorEnv or as a vector environment. `get_state()` may
    omit the generators that Gymnasium seeds.

    Returns:
        One entry per layer: the vector environment, then each environment from its
        outermost wrapper inwards; None if a layer's state is not available.
    """
    layers = _layers(envs)
    if not all(type(layer) in _ATTRIBUTES or _is_own(layer) for layer in layers):
        return None
    try:
        return [_state_of(layer) for layer in layers]
    except _UnusableError as error:
        warnings.warn(str(error), stacklevel=2)
        return None


def set_envs_state(envs: Any, state: list[dict[str, Any]]) -> None:
    """Restore the state of a vector environment that was reset.

    Raises:
        Exception: of any type; the state is damaged, or belongs to other environments.
    """
    for layer, saved in zip(_layers(envs), state, strict=True):
        name = _name_of(layer)
        if saved["type"] != name:
            raise ValueError(f"expected the state of {name}, got {saved['type']}")
        attributes, values = _ATTRIBUTES.get(type(layer)), saved["values"]
        if attributes is None:
            layer.set_state(values)
        for attribute in attributes or ():
            now = getattr(layer, attribute)
            setattr(layer, attribute, _decode(values[attribute], now))
        if saved["random"] is not None:
            layer.np_random.bit_generator.state = saved["random"]


def encode_array(array: Array) -> dict[str, Any]:
    """Return a numeric array as JSON, bit for bit."""
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "base64": data}


def encode_arrays(observations: Observations) -> dict[str, Any]:
    """Return one array or a dict of arrays as JSON, bit for bit."""
    encoded: dict[str, Any] = map_array(encode_array, observations)
    return encoded


def decode_arrays(value: dict[str, Any], like: Observations) -> Observations:
    """Return encoded arrays of the same form as `like`; see `decode_array`."""
    if isinstance(like, dict) and value.keys() != like.keys():
        raise ValueError(f"expected {[*like]}, got {[*value]}")
    return map_array(lambda own, each: decode_array(each, own), like, value)


def decode_array(value: dict[str, Any], like: Array) -> Array:
    """Return an encoded array; its shape and kind must match those of `like`.

    Raises:
        Exception: of any type; the value is damaged or doesn't match.
    """
    dtype = np.dtype(value["dtype"])
    if dtype.str != value["dtype"] or dtype.kind != like.dtype.kind:
        raise ValueError(f"expected dtype {like.dtype.str}, got {value['dtype']}")
    if value["shape"] != list(like.shape):
        raise ValueError(f"expected shape {list(like.shape)}, got {value['shape']}")
    data = base64.b64decode(value["base64"], validate=True)
    array: Array = np.frombuffer(data, dtype).reshape(like.shape)
    return np.array(array)


class _UnusableError(Exception):
    """The state of a user-defined environment can't be stored."""


def _layers(envs: Any) -> list[Any]:
    """Return the vector environment and, if it is Gymnasium's, all layers in it."""
    while type(envs) in _STATELESS:
        envs = envs.env
    layers = [envs]
    for env in envs.envs if type(envs) in (SyncVectorEnv, SyncEnvs) else ():
        within = interface.wrapper_layers(env)
        # InterfaceCheck has no state.
        layers += [x for x in within if type(x) is not interface.InterfaceCheck]
    return layers


def _name_of(layer: Any) -> str:
    """Return the name of a layer's class; SyncEnvs counts as SyncVectorEnv."""
    kind = SyncVectorEnv if type(layer) is SyncEnvs else type(layer)
    return kind.__name__


def _is_own(layer: Any) -> bool:
    names = "get_state", "set_state"
    return all(callable(getattr(layer, name, None)) for name in names)


def _state_of(layer: Any) -> dict[str, Any]:
    attributes = _ATTRIBUTES.get(type(layer))
    state: dict[str, Any] = {"type": _name_of(layer)}
    if attributes is not None:
        values = {name: _encode(getattr(layer, name)) for name in attributes}
        return {**state, "values": values, "random": _random(layer)}
    try:  # a JSON round trip gives a copy that the environment can't change
        own = {"values": layer.get_state(), "random": _random(layer)}
        return {**state, **json.loads(json.dumps(own))}
    except Exception as error:
        raise _UnusableError(
            f"{state['type']}.get_state() returns what JSON can't hold ({error}): "
            "a resumed run drops its unfinished episodes."
        ) from error


def _random(layer: Any) -> Any:
    generator = None if isinstance(layer, gym.Wrapper) else layer._np_random
    return None if generator is None else generator.bit_generator.state


def _encode(value: Any) -> Any:
    return value if isinstance(value, int) else encode_array(np.asarray(value))


def _decode(value: Any, like: Any) -> Any:
    if not isinstance(like, int):
        return decode_array(value, np.asarray(like))
    if type(value) is not int:
        raise ValueError(f"expected a whole number, got {value!r}")
    return value
