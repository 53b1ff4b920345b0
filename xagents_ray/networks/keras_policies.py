"""Keras models of whole policies, from an environment's observations."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from xagents_ray.core.moments import CLIP_RANGE, OBSERVATION, STD_EPSILON
from xagents_ray.core.spec import VECTOR, EnvSpec
from xagents_ray.core.trajectory import FloatArray
from xagents_ray.networks.keras import build_model, final_state_model, named_weights
from xagents_ray.networks.layout import Layout

__autograph__ = False

_STATE = "state"


def of_observations(
    layout: Layout,
    weights: Mapping[str, FloatArray],
    space: Any,
    spec: EnvSpec,
) -> Any:
    """Return a `keras.Model` that maps an environment's observations to the outputs.

    With memory, it also takes `state`, float32 [B, state_units], last in a list or by
    its name in a dict of named inputs, and its last output is the next state. If the
    observation has an input of this name, the one of the memory is `memory_state`.

    Args:
        layout: the network.
        weights: the network's arrays by name; the model normalizes vectors if they
            include those of `moments.statistics_shapes`.
        space: Gymnasium space of one observation, a Dict if it has several arrays;
            stacked images are [stack, H, W, ...].
        spec: spec of the environment.
    """
    model = build_model(layout, None, "network")
    for name, variable in named_weights(model).items():
        variable.assign(weights[name])
    if not layout.inputs:
        dtype, frame = spec.observation_dtype, spec.observation_shape
        given = keras.Input(space.shape, dtype=dtype, name="observation")
        x = _stacked(given, frame, spec.stack) if spec.is_image else given
        x = keras.layers.Reshape(layout.input_shape)(x)
        return _policy(layout, model, given, _scaled(x, layout.scale, weights))
    named = {x.name: _named_input(x.name, space[x.name]) for x in spec.inputs}
    inputs: list[Any] = []
    for each in layout.inputs:
        if each.name == VECTOR:
            parts = [named[part.name] for part in spec.inputs if not part.is_image]
            inputs.append(_scaled(_joined(parts), each.scale, weights))
        else:
            _, frame = spec.arrays[each.name]
            x = _stacked(named[each.name], frame, spec.stack)
            x = keras.layers.Reshape(each.shape)(x)
            inputs.append(_scaled(x, each.scale, {}))
    given = {_own_name(name): x for name, x in named.items()}
    return _policy(layout, model, given, inputs)


def _policy(layout: Layout, model: Any, given: Any, x: Any) -> Any:
    """Return the whole policy, given its inputs and the network's of these.

    With memory, it also takes a state and returns the next one.
    """
    if not layout.state_units:
        return keras.Model(given, model(x), name="policy")
    named, name = isinstance(given, dict), _STATE
    while named and name in given:
        name = f"memory_{name}"
    state = keras.Input((layout.state_units,), name=name)
    none_start = keras.ops.zeros_like(state[None, :, 0], dtype="bool")
    inputs = [x, state, none_start]
    outputs, after = model(inputs), final_state_model(layout, model)(inputs)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    whole = {**given, name: state} if named else [given, state]
    return keras.Model(whole, [*outputs, after], name="policy")


def _named_input(name: str, space: Any) -> Any:
    """Return an input for a part of the observation."""
    return keras.Input(space.shape, dtype=space.dtype.name, name=_own_name(name))


def _own_name(name: str) -> str:
    return name.replace("/", ".")  # Keras allows no / in names


def _stacked(x: Any, frame: tuple[int, ...], stack: int) -> Any:
    """Return [B, H, W, stack(, C)] of [B, stack, H, W(, C)] or [B, H, W(, C)]."""
    x = keras.layers.Reshape((stack, *frame))(x)
    return keras.layers.Permute((2, 3, 1, *range(4, len(frame) + 2)))(x)


def _joined(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else keras.layers.Concatenate()(parts)


def _scaled(x: Any, scale: float, weights: Mapping[str, FloatArray]) -> Any:
    """Return float32 inputs, normalized if there are statistics, else scaled."""
    layers = keras.layers
    if f"{OBSERVATION}/mean" not in weights:
        return layers.Rescaling(scale)(x)
    mean, variance = (weights[f"{OBSERVATION}/{n}"] for n in ("mean", "variance"))
    variance = variance + STD_EPSILON
    x = layers.Normalization(mean=mean, variance=variance, dtype="float64")(x)
    return keras.ops.cast(keras.ops.clip(x, -CLIP_RANGE, CLIP_RANGE), "float32")
