"""Converts Keras models to this package's layers, without TensorFlow."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xagents_ray.networks.inputs import InputPart, NetworkInputs
from xagents_ray.networks.keras_layers import Activation, Embedding, LayerNorm
from xagents_ray.networks.layers import Convolutional, Dense, Flatten, Layer
from xagents_ray.networks.translated_memory import memory_layer


class KerasNetwork(NamedTuple):
    """A model's layers, the indices of its output layers, and its inputs' shapes."""

    layers: tuple[Layer, ...]
    outputs: tuple[int, ...]
    inputs: Mapping[str, tuple[int, ...]]


# Models with other activations are whole models, and their stored runs remain so.
# Only those with an LSTM or GRU that got memory can't be resumed any more.
_TRANSLATED = {
    *("linear", "relu", "tanh", "sigmoid", "softmax", "elu", "softplus", "gelu"),
    *("silu", "selu", "leaky_relu"),
}


def reads_one_array(
    found: Mapping[str, tuple[int, ...]], inputs: NetworkInputs
) -> bool:
    """Return whether a model's inputs by name are one array, that of the network."""
    is_one = len(found) == 1 and not inputs.has_several_arrays
    return is_one and [*found.values()] == [inputs.arrays[0].shape]


def translated_model(
    model: Mapping[str, Any], inputs: NetworkInputs
) -> KerasNetwork | None:
    """Return a model converted to our layers; None if NumPy doesn't support it.

    Args:
        model: config of the model.
        inputs: the inputs of the network.
    """
    config, kind = model["config"], model["class_name"]
    if kind not in ("Functional", "Sequential"):
        return None
    given = _given(config)
    translation = _Translation(inputs, given)
    if not translation.take_inputs():
        return None
    for entry in config["layers"]:
        if entry["class_name"] == "InputLayer":
            continue
        last = translation.last if kind == "Sequential" else None
        if not translation.add(entry, last):
            return None
    made, places = translation.made, translation.places
    is_chain = kind == "Sequential"
    ends = [translation.last] if is_chain else [places[n] for n in _outputs(config)]
    read = {i for layer in made for i in layer.sources}.union(ends)
    if min(ends) < 0 or not read >= set(range(len(made))):
        return None
    return KerasNetwork(tuple(made), tuple(ends), dict(given.values()))


class _Translation:
    """A model that is being converted.

    Attributes:
        made: layers so far.
        places: sources by Keras' name of a layer; see `Layer.source`.
        last: source of the newest layer.
    """

    def __init__(
        self,
        inputs: NetworkInputs,
        given: Mapping[str, tuple[str, tuple[int, ...]]],
    ) -> None:
        self.made: list[Layer] = []
        self.places: dict[str, int] = {}
        self.last = -1
        self._inputs, self._given = inputs, given
        self._shapes: dict[int, tuple[int, ...]] = {}
        # Scales of inputs and of layers that only flatten or select them.
        self._scales: dict[int, float] = {}
        self._is_named = False

    def take_inputs(self) -> bool:
        """Take the model's inputs; return whether they are known."""
        shapes = dict(self._given.values())
        if len(self._given) == 1 and not self._inputs.has_several_arrays:
            ((own, (name, shape)),) = self._given.items()
            part = self._inputs.parts.get(name)
            if reads_one_array(shapes, self._inputs) or part is None:
                self.places[own] = -1
                self._shapes[-1] = shape
                self._scales[-1] = self._inputs.arrays[0].scale
                return True
        self._is_named = True
        for own, (name, shape) in self._given.items():
            part = self._inputs.parts.get(name)
            if part is None or part.shape != shape:
                return False
            self.places[own] = self.last = self._place_of(part)
        return bool(self._given)

    def _place_of(self, part: InputPart) -> int:
        """Return the source of a part, for which a layer is added if needed."""
        scale = self._inputs.arrays[-1 - part.source].scale
        self._shapes[part.source] = self._inputs.arrays[-1 - part.source].shape
        self._scales[part.source] = scale
        if not part.ranges:
            return part.source
        place = len(self.made)
        self.made.append(part.layer(f"input-{place}"))
        self._shapes[place], self._scales[place] = part.shape, scale
        return place

    def add(self, entry: Mapping[str, Any], last: int | None) -> bool:
        """Add a layer that reads the last one, or its own inputs if that is None.

        Return False if it has no equivalent.
        """
        own = entry["config"]
        if self._is_named and entry["class_name"] == "Concatenate":
            sources = _sources(entry, self.places)
            return sources is not None and self._join(entry, sources)
        source = _source(entry, self.places) if last is None else last
        if source is None or source not in self._shapes or not _is_plain(entry):
            return False
        facts = {"name": self._name(entry), "source": source}
        layer = _layer(entry["class_name"], own, self._shapes[source], facts)
        if layer is None or (layer.state_units and not self._is_one_step(source)):
            return False
        scale = self._scales.get(source)
        if isinstance(layer, Flatten) and scale is not None:
            self._scales[len(self.made)] = scale
        elif scale not in (None, 1) and not _takes_scale(layer):
            return False
        self._append(entry, layer)
        return True

    def _is_one_step(self, source: int) -> bool:
        """Return whether a layer made a vector a sequence of one step, (1, n)."""
        return source >= 0 and isinstance(self.made[source], Flatten)

    def _join(self, entry: Mapping[str, Any], sources: Sequence[int]) -> bool:
        """Add a layer that joins vectors; return whether they are vectors."""
        shapes = [self._shapes.get(source, ()) for source in sources]
        is_last = entry["config"]["axis"] in (-1, 1)
        if not is_last or any(len(shape) != 1 for shape in shapes):
            return False
        first, *more = sources
        layer = Activation(
            name=self._name(entry),
            source=first,
            more_sources=tuple(more),
            output_shape=(sum(n for (n,) in shapes),),
        )
        self._append(entry, layer)
        return True

    def _append(self, entry: Mapping[str, Any], layer: Layer) -> None:
        self.places[entry["config"]["name"]] = self.last = len(self.made)
        self._shapes[self.last] = layer.output_shape
        self.made.append(layer)

    def _name(self, entry: Mapping[str, Any]) -> str:
        word = str(entry["class_name"]).lower()
        number = sum(layer.name.startswith(f"{word}-") for layer in self.made)
        return f"{word}-{number}"


def _given(config: Mapping[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return name and shape of each input, by the name of its layer.

    The name is the key in the model's dict of inputs, or that of the layer.
    """
    keys = config.get("input_layers")
    named = {x[0]: key for key, x in keys.items()} if isinstance(keys, dict) else {}
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for entry in config["layers"]:
        if entry["class_name"] == "InputLayer":
            name, shape = entry["config"]["name"], entry["config"]["batch_shape"]
            found[name] = named.get(name, name), tuple(shape[1:])
    return found


def _takes_scale(layer: Layer) -> bool:
    return bool(layer.shapes) and not isinstance(layer, Embedding)


def _is_plain(entry: Mapping[str, Any]) -> bool:
    """Return whether a layer is a float32 built-in of Keras with ordinary training."""
    own = entry["config"]
    fixed = ("_regularizer", "_constraint", "quantization_config", "lora_rank")
    special = [v for k, v in own.items() if k.endswith(fixed)]
    is_float32 = (own.get("dtype", {}).get("config") or {}).get("name") == "float32"
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


def _sources(entry: Mapping[str, Any], places: Mapping[str, int]) -> list[int] | None:
    """Return the indices of a layer's inputs, a list; None if it has several calls."""
    nodes = entry["inbound_nodes"]
    if len(nodes) != 1 or len(nodes[0]["args"]) != 1:
        return None
    found: list[int] = []
    for tensor in nodes[0]["args"][0]:
        name, *node = tensor["config"]["keras_history"]
        if node != [0, 0] or name not in places:
            return None
        found.append(places[name])
    return found


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
    if (memory := memory_layer(kind, own, shape, facts)) is not None:
        return memory
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
