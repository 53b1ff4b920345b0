"""The Keras model of a layout; imports TensorFlow, so env actors don't use it."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError, one_line
from xagents_ray.core.moments import CLIP_RANGE, OBSERVATION, STD_EPSILON
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import FloatArray
from xagents_ray.networks.heads import WeightlessLayer
from xagents_ray.networks.layout import Layout

__autograph__ = False


def _initializer(name: str, gain: float, seed: int) -> Any:
    """Return a kernel's initializer; each layer needs a different seed.

    `uniform_within` is that of noisy layers, whose gain is the bound.
    """
    own = objects.find_kept("initializer", name)
    if own is not None:
        return _user_initializer(name, own, gain, seed)
    if name == "uniform_within":
        return keras.initializers.RandomUniform(-gain, gain, seed)
    special: dict[str, dict[str, Any]] = {
        "orthogonal": {"gain": gain, "seed": seed},
        **{word: {} for word in ("constant", "identity", "ones", "zeros")},
    }
    config = special.get(name, {"seed": seed})
    return keras.initializers.get({"class_name": name, "config": config})


def _user_initializer(name: str, given: Any, gain: float, seed: int) -> Any:
    """Return the initializer of a user's instance, class or function.

    A class or function that makes one gets `gain` and `seed` if it takes them; a
    function of a shape is an initializer itself. An instance without a seed of its own
    gets this one.

    Raises:
        UserError: it can't be made.
    """
    if isinstance(given, keras.initializers.Initializer):
        config = given.get_config()
        if config.get("seed", seed) is None:
            return type(given).from_config({**config, "seed": seed})
        return given
    parameters = inspect.signature(given).parameters
    if "shape" in parameters and not inspect.isclass(given):
        return given
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    offered = {"gain": gain, "seed": seed}
    own = {key: x for key, x in offered.items() if takes_all or key in parameters}
    try:
        return given(**own)
    except Exception as error:
        raise UserError(
            f"The initializer {name!r} can't be made ({one_line(error)}): register "
            "one that needs no arguments but gain and seed."
        ) from error


def build_model(
    layout: Layout,
    seed: int,
    name: str,
    dtype: str = "float32",
    takes_noise: bool = False,
) -> Any:
    """Return a `keras.Model` that maps float32 [B, *input_shape] to the outputs.

    Initial weights depend on the seed and on the model's name. Weights and outputs are
    float32; with dtype `bfloat16`, the layers before the outputs compute in bfloat16.
    With `takes_noise`, the model has a second input, float32 [B, noise_units], or [1,
    noise_units] for all rows.
    """
    entropy = np.random.SeedSequence([seed, *name.encode()])
    seeds = entropy.generate_state(len(layout.layers))
    x = keras.Input(layout.input_shape, name="observation")
    noise: Any = None
    if takes_noise:
        noise = keras.Input((layout.noise_units,), name="noise")
    exact, values = _heads(layout), list[Any]()
    places = zip(layout.layers, seeds, layout.noise_places, strict=True)
    for i, (layer, own, place) in enumerate(places):
        read = x if layer.source < 0 else values[layer.source]
        if layer.more_sources:
            more = [values[j] for j in layer.more_sources]
            read = keras.ops.concatenate([read, *more], axis=-1)
        initializer = functools.partial(_initializer, seed=int(own))
        made = layer.keras(keras.layers, initializer)
        if dtype == "bfloat16" and i not in exact:
            made.dtype_policy = "mixed_bfloat16"
        if noise is None or place is None:
            values.append(made(read))
        else:
            values.append(made(read, noise[:, place]))
    given = x if noise is None else [x, noise]
    return keras.Model(given, [values[i] for i in layout.outputs], name=name)


def _heads(layout: Layout) -> set[int]:
    """Return the indices of the outputs and of the layers that feed weightless ones."""
    heads, new = set[int](), list(layout.outputs)
    while new:
        layer = layout.layers[i := new.pop()]
        heads.add(i)
        if isinstance(layer, WeightlessLayer):
            new += layer.source, *layer.more_sources
    return heads


def of_observations(
    layout: Layout,
    weights: Mapping[str, FloatArray],
    shape: tuple[int, ...],
    spec: EnvSpec,
) -> Any:
    """Return a `keras.Model` that maps an environment's observations to the outputs.

    Args:
        layout: the network.
        weights: the network's arrays by name; the model normalizes observations if they
            include those of `moments.statistics_shapes`.
        shape: shape of one observation; stacked images are [stack, H, W, ...].
        spec: spec of the environment.
    """
    layers, model = keras.layers, build_model(layout, 0, "network")
    for name, variable in named_weights(model).items():
        variable.assign(weights[name])
    given = keras.Input(shape, dtype=spec.observation_dtype, name="observation")
    x: Any = given
    if spec.is_image:
        x = layers.Reshape((spec.stack, *spec.observation_shape))(x)
        channels = range(4, len(spec.observation_shape) + 2)
        x = layers.Permute((2, 3, 1, *channels))(x)
    x = layers.Reshape(layout.input_shape)(x)
    if f"{OBSERVATION}/mean" in weights:
        mean, variance = (weights[f"{OBSERVATION}/{n}"] for n in ("mean", "variance"))
        variance = variance + STD_EPSILON
        x = layers.Normalization(mean=mean, variance=variance, dtype="float64")(x)
        x = keras.ops.cast(keras.ops.clip(x, -CLIP_RANGE, CLIP_RANGE), "float32")
    else:
        x = layers.Rescaling(layout.scale)(x)
    return keras.Model(given, model(x), name="policy")


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


def scaled_inputs(layout: Layout, observations: tf.Tensor) -> tf.Tensor:
    """Return observations as scaled float32 network inputs."""
    if layout.scale == 1:
        return tf.cast(observations, tf.float32)
    if tf.config.list_logical_devices("GPU"):  # GPUs have no kernel for `dequantize`
        return tf.cast(observations, tf.float32) * layout.scale
    # The same result in one pass; memory bandwidth is the bottleneck.
    return tf.quantization.dequantize(tf.bitcast(observations, tf.quint8), 0.0, 1.0)
