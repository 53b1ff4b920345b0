"""What networks read: one array, or several by name, and named parts of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.core.spec import VECTOR, EnvSpec
from xagents_ray.core.trajectory import FloatArray
from xagents_ray.networks.keras_layers import LayerWithoutSection
from xagents_ray.networks.layers import Initializer, Step
from xagents_ray.networks.onnx import OnnxGraph

ACTION = "action"
"""Name of the action in the input of a network that reads actions, too."""
Range = tuple[int, int]
"""Begin and end of consecutive components of a vector."""


class InputArray(NamedTuple):
    """An array that a network reads.

    Attributes:
        name: name in a dict of observations; "" for the only array.
        shape: shape without the batch, `(H, W, C)` or `(D,)`.
        scale: factor by which it is multiplied: 1/255 for uint8.
    """

    name: str
    shape: tuple[int, ...]
    scale: float


class InputPart(NamedTuple):
    """A part of a network's input: an image, or components of a vector.

    Attributes:
        source: source of layers that read the array; see `Layer.source`.
        shape: shape without the batch.
        ranges: components of a vector; empty for the whole array.
    """

    source: int
    shape: tuple[int, ...]
    ranges: tuple[Range, ...] = ()

    def of(self, inputs: Sequence[Any]) -> Any:
        """Return the part of the network's input arrays, of NumPy or TensorFlow."""
        x = inputs[-1 - self.source]
        if not self.ranges:
            return x
        ((begin, end),) = self.ranges
        return x[:, begin:end]

    def layer(self, name: str) -> "Selection":
        """Return the layer that selects the components."""
        name = name.replace("/", ".")  # Keras allows no / in names
        return Selection(
            name=name, source=self.source, output_shape=self.shape, ranges=self.ranges
        )


@dataclass(frozen=True)
class NetworkInputs:
    """The input of a network.

    Attributes:
        arrays: the arrays that the network reads.
        parts: parts that layers may read, by name; with `VECTOR`, all vectors joined.
            Empty if the observation is one array without named inputs.
        first: part that a default network reads if there is only one array.
    """

    arrays: tuple[InputArray, ...]
    parts: Mapping[str, InputPart]
    first: InputPart

    @classmethod
    def one(cls, shape: tuple[int, ...], scale: float) -> "NetworkInputs":
        """Return an input that is one array without named parts."""
        return cls((InputArray("", shape, scale),), {}, InputPart(-1, shape))

    @property
    def has_several_arrays(self) -> bool:
        return len(self.arrays) > 1


def inputs_of(
    spec: EnvSpec, action_units: int = 0, unread: Collection[str] = ()
) -> NetworkInputs:
    """Return what a network reads of an environment's observations.

    Args:
        spec: spec of the environment.
        action_units: size of the action that follows the observation vector; 0 for
            none.
        unread: names of inputs that are not among the parts.
    """
    scale = 1 / 255 if spec.observation_dtype == "uint8" else 1.0
    shape = spec.input_shape
    if action_units:
        scale = 1.0  # the learner scales observations before it appends actions
        shape = (shape[0] + action_units,)
    if not spec.inputs:
        return NetworkInputs.one(shape, scale)
    arrays: tuple[InputArray, ...] = (InputArray("", shape, scale),)
    if spec.has_several_arrays:
        arrays = tuple(_input_array(spec, *each) for each in spec.arrays.items())
    sources = {each.name: -1 - i for i, each in enumerate(arrays)}
    parts, ranges = dict[str, InputPart](), list[Range]()
    for each in spec.inputs:
        if each.name in unread:
            continue
        if each.is_image:
            source = sources.get(each.name, -1)
            parts[each.name] = InputPart(source, arrays[-1 - source].shape)
        else:
            own = each.place.start, each.place.stop
            parts[each.name] = _vector_part(arrays, [own])
            ranges.append(own)
    if action_units:
        own = shape[0] - action_units, shape[0]
        parts.setdefault(ACTION, _vector_part(arrays, [own]))
        ranges.append(own)
    if ranges:
        parts[VECTOR] = _vector_part(arrays, ranges)
    first = parts.get(VECTOR, InputPart(-1, arrays[0].shape))
    return NetworkInputs(arrays, parts, first)


def _input_array(
    spec: EnvSpec, name: str, kind: tuple[str, tuple[int, ...]]
) -> InputArray:
    """Return one of several arrays, given its dtype and the shape of one frame."""
    dtype, shape = kind
    scale = 1 / 255 if dtype == "uint8" else 1.0
    if name != VECTOR:
        height, width, *channels = shape
        shape = height, width, spec.stack * (channels[0] if channels else 1)
    return InputArray(name, shape, scale)


def _vector_part(arrays: Sequence[InputArray], ranges: Iterable[Range]) -> InputPart:
    """Return a part of the vectors, which are the last array."""
    merged: list[Range] = []
    for begin, end in ranges:
        if merged and merged[-1][1] == begin:
            begin, _ = merged.pop()
        merged.append((begin, end))
    shape = (sum(end - begin for begin, end in merged),)
    is_whole = shape == arrays[-1].shape
    return InputPart(-len(arrays), shape, () if is_whole else tuple(merged))


@dataclass(frozen=True, kw_only=True)
class Selection(LayerWithoutSection):
    """Selects components of a vector."""

    ranges: tuple[Range, ...]

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the selection in NumPy, without scaling."""
        if len(self.ranges) == 1:
            own = slice(*self.ranges[0])
            return lambda x: x[:, own]
        places = self._places
        return lambda x: x[:, places]

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        return resolve_name("xagents_ray.networks.keras_heads:KerasSelection")(self)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the selection to an ONNX graph."""
        return graph.add("Gather", x, self._places, axis=1)

    @property
    def _places(self) -> Any:
        return np.concatenate([np.arange(*each) for each in self.ranges])
