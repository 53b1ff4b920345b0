"""The Keras model of a layout; imports TensorFlow, so env actors don't use it."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError, one_line
from xagents_ray.core.trajectory import FloatArray
from xagents_ray.networks.heads import WeightlessLayer
from xagents_ray.networks.layers import Layer
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.section import INITIALIZERS

__autograph__ = False

_WITHIN = "uniform_within"
"""Name of the initializer of noisy layers."""


def _initializer(name: str, gain: float, seed: int, redrawn: bool = False) -> Any:
    """Return a kernel's initializer; each layer needs a different seed.

    `uniform_within` is that of noisy layers, whose gain is the bound.
    """
    own = objects.find_kept("initializer", name)
    if own is not None:
        return _user_initializer(name, own, gain, seed, redrawn)
    if name == _WITHIN:
        return keras.initializers.RandomUniform(-gain, gain, seed)
    special: dict[str, dict[str, Any]] = {
        "orthogonal": {"gain": gain, "seed": seed},
        "constant": {"value": 0.0},
        **{word: {} for word in ("identity", "ones", "zeros")},
    }
    config = special.get(name, {"seed": seed})
    return keras.initializers.get({"class_name": name, "config": config})


def _stand_in(name: str, gain: float, seed: int) -> Any:
    """Return an initializer for weights that are replaced: none is a user's own."""
    is_known = name in INITIALIZERS or name == _WITHIN
    return _initializer(name if is_known else "glorot_uniform", gain, seed)


def _user_initializer(
    name: str, given: Any, gain: float, seed: int, redrawn: bool
) -> Any:
    """Return the initializer of a user's instance, class or function.

    One without a seed of its own gets this one; `redrawn` replaces its own.

    Raises:
        UserError: it can't be made.
    """
    made = given
    if not isinstance(given, keras.initializers.Initializer):
        try:
            made = _called(given, gain=gain, seed=seed)
        except Exception as error:
            raise UserError(
                f"The initializer {name!r} can't be made ({one_line(error)}): register "
                "one that needs no arguments but gain and seed."
            ) from error
    if not isinstance(made, keras.initializers.Initializer):
        return made
    config = made.get_config()
    own = config["seed"] if "seed" in config else seed
    if own == seed or not (own is None or redrawn):
        return made
    try:
        return type(made).from_config({**config, "seed": seed})
    except Exception as error:
        if own is None and not (redrawn and made is given):
            return made  # Keras draws its seed
        raise UserError(
            f"The initializer {name!r} can't be made with another seed "
            f"({one_line(error)}), which a second network needs: register a class or "
            "a function that takes seed."
        ) from error


def check_redrawn(layout: Layout, one: Any, other: Any) -> None:
    """Raise UserError if an initializer of the user's drew the same for two networks.

    Layers that begin alike may stay so for ever. Kernels of one value are exempt.

    Args:
        layout: layout of both networks.
        one: the model that was made first.
        other: the model that was made second.
    """
    first, second = named_weights(one), named_weights(other)
    for layer in layout.layers:
        name = getattr(layer, "initializer", None)
        if name is None or objects.find_kept("initializer", name) is None:
            continue
        for key in (key for key in layer.shapes if key.endswith("/kernel")):
            kernel = first[key].numpy()
            if np.ptp(kernel) and np.array_equal(kernel, second[key].numpy()):
                raise UserError(
                    f"The initializer {name!r} draws the same weights for a second "
                    "network, which would stay like the first: register a class or a "
                    "function that takes seed."
                )


def _called(given: Any, **offered: Any) -> Any:
    """Return what a class or function makes of those arguments that it takes.

    A function of a shape is an initializer itself.
    """
    parameters = inspect.signature(given).parameters
    if "shape" in parameters and not inspect.isclass(given):
        return given
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    own = {key: x for key, x in offered.items() if takes_all or key in parameters}
    return given(**own)


def build_model(
    layout: Layout,
    seed: int | None,
    name: str,
    dtype: str = "float32",
    takes_noise: bool = False,
    redrawn: bool = False,
) -> Any:
    """Return a `keras.Model` that maps float32 [B, *input_shape] to the outputs.

    If the network reads several arrays, the input is a list of them, in their order.
    The noise, if `takes_noise`, and what `_memory_inputs` returns follow it in a list.
    Initial weights depend on the seed and on the model's name. Weights and outputs are
    float32; with dtype `bfloat16`, the layers before the outputs compute in bfloat16.

    Args:
        layout: the network.
        seed: seed of the initial weights; None if they are replaced, for which the
            user's initializers need not be registered.
        name: name of the model.
        dtype: `float32` or `bfloat16`.
        takes_noise: whether it has a second input, float32 [B or 1, noise_units].
        redrawn: whether user initializers with seeds get others, as they have been
            used for an earlier network with this layout.
    Raises:
        UserError: an initializer of the user's can't be made.
    """
    entropy = np.random.SeedSequence([seed or 0, *name.encode()])
    seeds = entropy.generate_state(len(layout.layers))
    draw: Any = _stand_in if seed is None else partial(_initializer, redrawn=redrawn)
    inputs = _inputs(layout)
    noise = [keras.Input((layout.noise_units,), name="noise")] * takes_noise
    memory = _memory_inputs(layout)
    exact = _heads(layout)

    def made(i: int) -> Any:
        layer = layout.layers[i].keras(keras.layers, partial(draw, seed=int(seeds[i])))
        if dtype == "bfloat16" and i not in exact:
            layer.dtype_policy = "mixed_bfloat16"
        return layer

    values = _values(layout, made, inputs, noise, memory)
    x: Any = inputs if layout.inputs else inputs[0]
    given = [x, *noise, *memory] if noise or memory else x
    return keras.Model(given, [values[i] for i in layout.outputs], name=name)


def _values(
    layout: Layout,
    made: Callable[[int], Any],
    inputs: Sequence[Any],
    noise: Sequence[Any],
    memory: Sequence[Any],
) -> list[Any]:
    """Return the output of each layer; `made` returns its Keras layer."""
    values = list[Any]()
    places = zip(layout.layers, layout.noise_places, layout.state_places, strict=True)
    for i, (layer, noise_place, state_place) in enumerate(places):
        read, call = _input_of(layer, inputs, values), made(i)
        if state_place is not None:
            state, starts = memory
            y, _ = call(read, state[:, state_place], starts)
        elif noise and noise_place is not None:
            y = call(read, noise[0][:, noise_place])
        else:
            y = call(read)
        values.append(y)
    return values


def _inputs(layout: Layout) -> list[Any]:
    """Return a Keras input for each array that the network reads."""
    return [
        keras.Input(each.shape, name=f"observation-{i}" if i else "observation")
        for i, each in enumerate(layout.arrays)
    ]


def _memory_inputs(layout: Layout) -> list[Any]:
    """Return a model's inputs for its memory, none if it has none.

    They are the state before row 0, float32 [B, state_units], and `starts`, bool
    [T, B]: the state is zeroed before these rows. The model's other inputs and its
    outputs then have T * B rows, time-major.
    """
    if not layout.state_units:
        return []
    state = keras.Input((layout.state_units,), name="state")
    return [state, keras.Input(batch_shape=(None, None), dtype="bool", name="starts")]


def final_state_model(layout: Layout, model: Any) -> Any:
    """Return a `keras.Model` that maps the inputs of a model to its final state.

    That is float32 [B, state_units], the state after the last row. Both models share
    their weights.

    Args:
        layout: a network with memory.
        model: the model of the network, from `build_model`.
    """
    recurrent = [layer.name for layer in layout.layers if layer.state_units]
    states = [model.get_layer(name).output[1] for name in recurrent]
    joined = states[0] if len(states) == 1 else keras.ops.concatenate(states, axis=-1)
    return keras.Model(model.input, joined)


def _input_of(layer: Layer, inputs: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return what a layer reads of the model's inputs and of earlier outputs."""
    if layer.reads_inputs:
        return [*inputs]
    read = [inputs[-1 - i] if i < 0 else values[i] for i in layer.sources]
    return read[0] if len(read) == 1 else keras.ops.concatenate(read, axis=-1)


def _heads(layout: Layout) -> set[int]:
    """Return the indices of the outputs and of the layers that feed weightless ones."""
    heads, new = set[int](), list(layout.outputs)
    while new:
        layer = layout.layers[i := new.pop()]
        heads.add(i)
        if isinstance(layer, WeightlessLayer):
            new += layer.source, *layer.more_sources
    return heads


def named_weights(model: Any) -> dict[str, Any]:
    """Return the model's variables by name, `dense-0/kernel`."""
    named = {f"{v.path.split('/')[-2]}/{v.name}": v for v in model.weights}
    for layer in model.layers:  # a user's whole model has names of its own
        if names := getattr(layer, "names", None):
            named = dict(zip(names, layer.model.weights, strict=True))
    return named


def weight_arrays(model: Any) -> dict[str, FloatArray]:
    """Return a copy of the model's weights by name."""
    return {k: np.array(v.numpy(), np.float32) for k, v in named_weights(model).items()}


def scaled_inputs(layout: Layout, observations: Any) -> Any:
    """Return observations as scaled float32 network inputs.

    Those of several arrays are a dict, and the inputs a list in the network's order.
    """
    if layout.inputs:
        return [_scaled(observations[x.name], x.scale) for x in layout.inputs]
    return _scaled(observations, layout.scale)


def _scaled(observations: tf.Tensor, scale: float) -> tf.Tensor:
    if scale == 1:
        return tf.cast(observations, tf.float32)
    if tf.config.list_logical_devices("GPU"):  # GPUs have no kernel for `dequantize`
        return tf.cast(observations, tf.float32) * scale
    # The same result in one pass; memory bandwidth is the bottleneck.
    return tf.quantization.dequantize(tf.bitcast(observations, tf.quint8), 0.0, 1.0)
