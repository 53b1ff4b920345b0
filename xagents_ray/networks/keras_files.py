"""Networks from `.keras` files, read without TensorFlow.

Layers that NumPy supports are converted to this package's layers. Their names, such as
`dense-0`, depend only on kind and order, so weights fit regardless of Keras' names.
"""

import math
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, NamedTuple

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.core.files import read_regular
from xagents_ray.core.installation import is_complete
from xagents_ray.networks import keras_archive
from xagents_ray.networks.keras_layers import Activation, Embedding, LayerNorm
from xagents_ray.networks.layers import Convolutional, Dense, Flatten, Layer


class KerasNetwork(NamedTuple):
    """A model's layers, the indices of its output layers, and the input's shape."""

    layers: tuple[Layer, ...]
    outputs: tuple[int, ...]
    input_shape: tuple[int, ...]


# Models with other activations are whole models, and their stored runs remain so.
_TRANSLATED = {
    *("linear", "relu", "tanh", "sigmoid", "softmax", "elu", "softplus", "gelu"),
    *("silu", "selu", "leaky_relu"),
}


def content(name: str | None) -> bytes | None:
    """Return a Keras file's content, given its path or the name of a Python object.

    Return None for a .cfg file or if the name is None.

    Raises:
        UserError: the file can't be read.
    """
    if name is None:
        return None
    kept: bytes | None = objects.find_kept("network-file", name)
    if kept is not None or not name.endswith(".keras"):
        return kept
    try:
        return read_regular(name)
    except OSError as error:
        raise unreadable(name, error) from None


def unreadable(name: str, error: OSError) -> UserError:
    """Return the error for a network's file that can't be read."""
    return UserError(
        f"{name}: can't be read ({error.strerror}); give the path of a .cfg or "
        ".keras file."
    )


def read_keras_layers(
    name: str,
    file: bytes,
    input_shape: tuple[int, ...],
    outputs: Sequence[int],
    scale: float,
) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    """Return the layers of a Keras file and the indices of the output layers.

    A file that wasn't made in this run may have layers of Keras only, or registered
    ones, and its weights must be as large as the layers need.

    Args:
        name: name of the file, for messages.
        file: content of the file.
        input_shape: shape of the input without the batch, `(H, W, C)` or `(D,)`.
        outputs: units of each output, in order.
        scale: factor by which inputs are multiplied.
    Raises:
        UserError: the file is invalid, has other layers, or its inputs or outputs have
            other sizes.
    """
    largest: int | None = None
    try:
        config, nbytes = keras_archive.read_archive(file)
        if objects.find_kept("network-file", name) is not file:
            # Own classes may make weights in ways that can't be counted.
            largest = nbytes if keras_archive.check_classes(name, config) else None
            if is_complete():  # else nothing can read them
                keras_archive.check_stored_weights(file)
        network = translated_model(config, scale)
    except UserError:
        raise
    except Exception:  # zipfile and zlib raise anything at a damaged file
        raise UserError(
            f"{name}: not a Keras model, or a damaged one; write it with "
            "model.save('NAME.keras')."
        ) from None
    if network is None:
        network = _whole(name, file, config, largest)
    _check(name, network, input_shape, outputs)
    if largest is not None:
        shapes = (x for layer in network.layers for x in layer.shapes.values())
        keras_archive.check_size(name, shapes, largest)
    return network.layers, network.outputs


def _whole(
    name: str, file: bytes, config: Mapping[str, Any], largest: int | None
) -> KerasNetwork:
    """Return a model that NumPy can't compute, which Keras reads.

    Args:
        name: name of the file, for messages.
        file: content of the file.
        config: config of the model in it.
        largest: maximum size of its weights, in bytes; None for any.
    """
    if largest is not None:
        check = resolve_name("xagents_ray.networks.keras_limits:check_weights")
        check(name, config, largest)
    whole = resolve_name("xagents_ray.networks.keras_models:whole_model")
    return KerasNetwork(*whole(name, file))


def _check(
    name: str, model: KerasNetwork, shape: tuple[int, ...], outputs: Sequence[int]
) -> None:
    """Raise UserError if the input or the outputs don't fit the agent."""
    if model.input_shape != shape:
        raise UserError(
            f"{name}: the model reads {_shown(model.input_shape)} and the network's "
            f"input here is {_shown(shape)}: build it on keras.Input({shape})."
        )
    found = [model.layers[i].output_shape for i in model.outputs]
    if found != [(units,) for units in outputs]:
        needed = " and ".join(f"{units} units" for units in outputs)
        raise UserError(
            f"{name}: the model's outputs are {' and '.join(map(_shown, found))} and "
            f"this agent needs {len(outputs)}, in this order: {needed}; "
            "feature_maker= adds them to a model without."
        )


def _shown(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"


def translated_model(model: Mapping[str, Any], scale: float) -> KerasNetwork | None:
    """Return a model converted to our layers; None if NumPy doesn't support it."""
    config, kind = model["config"], model["class_name"]
    if kind not in ("Functional", "Sequential"):
        return None
    made: list[Layer] = []
    places: dict[str, int] = {}  # indices of layers by Keras' name; -1 for the input
    shapes: dict[int, tuple[int, ...]] = {}
    raw, last = {-1}, -1  # input and layers that only flatten it; index of the last one
    for entry in config["layers"]:
        name, own = entry["config"]["name"], entry["config"]
        if entry["class_name"] == "InputLayer":
            if -1 in shapes:
                return None
            shapes[-1], places[name] = tuple(own["batch_shape"][1:]), -1
            continue
        source = last if kind == "Sequential" else _source(entry, places)
        if source is None or source not in shapes or not _is_plain(entry):
            return None
        number = sum(layer.name.startswith(f"{_word(entry)}-") for layer in made)
        facts = {"name": f"{_word(entry)}-{number}", "source": source}
        layer = _layer(entry["class_name"], own, shapes[source], facts)
        if layer is None:
            return None
        if isinstance(layer, Flatten) and source in raw:
            raw.add(len(made))
        elif source in raw and scale != 1 and not _takes_scale(layer):
            return None
        places[name] = last = len(made)
        shapes[last] = layer.output_shape
        made.append(layer)
    ends = [last] if kind == "Sequential" else [places[n] for n in _outputs(config)]
    read = {layer.source for layer in made}.union(ends)
    if min(ends) < 0 or not read >= set(range(len(made))):
        return None
    return KerasNetwork(tuple(made), tuple(ends), shapes[-1])


def _takes_scale(layer: Layer) -> bool:
    return bool(layer.shapes) and not isinstance(layer, Embedding)


def _word(entry: Mapping[str, Any]) -> str:
    return str(entry["class_name"]).lower()


def _is_plain(entry: Mapping[str, Any]) -> bool:
    """Return whether a layer is a float32 built-in of Keras with ordinary training."""
    own = entry["config"]
    fixed = ("_regularizer", "_constraint", "quantization_config", "lora_rank")
    special = [v for k, v in own.items() if k.endswith(fixed)]
    is_float32 = own.get("dtype", {}).get("config", {}).get("name") == "float32"
    is_ours = entry["module"] == "keras.layers" and own.get("trainable", True)
    return is_ours and is_float32 and not any(special)


def _source(entry: Mapping[str, Any], places: Mapping[str, int]) -> int | None:
    """Return the index of a layer's single input; None if it has several calls."""
    nodes = entry["inbound_nodes"]
    if len(nodes) != 1 or len(nodes[0]["args"]) != 1:
        return None
    (tensor,) = nodes[0]["args"]
    if not isinstance(tensor, dict):
        return None
    name, *node = tensor["config"]["keras_history"]
    return places.get(name) if node == [0, 0] else None


def _outputs(config: Mapping[str, Any]) -> list[str]:
    """Return the names of a functional model's output layers."""
    ends = config["output_layers"]
    if ends and isinstance(ends[0], str):
        ends = [ends]
    return [name for name, *_ in ends]


def _layer(
    kind: str, own: Mapping[str, Any], shape: tuple[int, ...], facts: dict[str, Any]
) -> Layer | None:
    """Convert a Keras layer to one of ours; None if there is no equivalent."""
    activation = own.get("activation", "linear")
    if kind == "ReLU" and own["max_value"] is None and own["threshold"] == 0:
        kind, activation = "Activation", "linear" if own["negative_slope"] else "relu"
        if own["negative_slope"]:
            return None
    if kind == "Softmax" and own["axis"] in (-1, len(shape)):
        kind, activation = "Activation", "softmax"
    if not isinstance(activation, str) or activation not in _TRANSLATED:
        return None
    facts |= {"activation": activation}
    if kind == "Dense" and own["use_bias"] and len(shape) == 1:
        units = int(own["units"])
        return Dense(
            **facts,
            initializer="glorot_uniform",
            gain=1.0,
            output_shape=(units,),
            kernel_shape=(*shape, units),
        )
    if kind == "Conv2D" and _is_square(own) and len(shape) == 3:
        return _convolutional(own, shape, facts)
    if kind == "Flatten" and own["data_format"] == "channels_last":
        return Flatten(**facts, output_shape=(math.prod(shape),))
    if kind == "Activation":
        return Activation(**facts, output_shape=shape)
    if kind == "Embedding" and not own["mask_zero"]:
        outputs = (*shape, int(own["output_dim"]))
        return Embedding(**facts, output_shape=outputs, count=int(own["input_dim"]))
    is_usual = own.get("center") and own.get("scale") and not own.get("rms_scaling")
    if kind == "LayerNormalization" and is_usual:
        if own["axis"] in (-1, [-1], len(shape), [len(shape)]):
            return LayerNorm(**facts, output_shape=shape, epsilon=own["epsilon"])
    return None


def _convolutional(
    own: Mapping[str, Any], shape: tuple[int, ...], facts: dict[str, Any]
) -> Convolutional:
    """Convert a `Conv2D` for which `_is_square` holds."""
    filters, stride = int(own["filters"]), int(own["strides"][0])
    size, _ = own["kernel_size"]
    height, width = ((side - size) // stride + 1 for side in shape[:2])
    return Convolutional(
        **facts,
        initializer="glorot_uniform",
        gain=1.0,
        output_shape=(height, width, filters),
        kernel_shape=(size, size, shape[-1], filters),
        stride=stride,
    )


def _is_square(own: Mapping[str, Any]) -> bool:
    """Return whether a convolution has a supported form."""
    pairs = own["kernel_size"], own["strides"]
    plain = own["padding"], own["data_format"], own["groups"], own["use_bias"]
    return (
        all(one == other for one, other in pairs)
        and list(own["dilation_rate"]) == [1, 1]
        and plain == ("valid", "channels_last", 1, True)
    )
