"""Layers that only Keras models have, not .cfg files."""

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any

import cloudpickle
import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.installation import check_complete
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.activations import ACTIVATIONS
from xagents_ray.networks.layers import Initializer, Layer, Step
from xagents_ray.networks.onnx import OnnxGraph, add_activation
from xagents_ray.networks.section import Section


class LayerWithoutSection(Layer):
    """A layer that can't be described by a section of a .cfg file."""

    @classmethod
    def read(
        cls, section: Section, source: int, shape: tuple[int, ...], units: int | None
    ) -> Layer:
        """Raise UserError, as no section describes the layer."""
        raise section.error("", "only Keras models have such layers")


@dataclass(frozen=True, kw_only=True)
class Activation(LayerWithoutSection):
    """A layer that only applies an activation."""

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy; its input is multiplied by `scale`."""
        activate = ACTIVATIONS[self.activation]
        # Activations work in place; copy, as other layers may read the same input.
        return lambda x: activate(x.astype(np.float32) * np.float32(scale))

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer; `layers` is `keras.layers`."""
        return layers.Activation(self.activation, name=self.name)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph."""
        return add_activation(graph, self.activation, x)


@dataclass(frozen=True, kw_only=True)
class LayerNorm(LayerWithoutSection):
    """Normalizes vectors or the channels of images; has a learned scale and offset.

    Source: arXiv:1607.06450.
    """

    epsilon: float

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name."""
        channels = self.output_shape[-1:]
        return {f"{self.name}/gamma": channels, f"{self.name}/beta": channels}

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy; its input is multiplied by `scale`."""
        gamma, beta = arrays[f"{self.name}/gamma"], arrays[f"{self.name}/beta"]

        def normalized(x: Array) -> FloatArray:
            x = x.astype(np.float32) * np.float32(scale)
            x -= x.mean(-1, keepdims=True)
            variance = np.square(x).mean(-1, keepdims=True)
            y: FloatArray = x / np.sqrt(variance + np.float32(self.epsilon))
            return y * gamma + beta

        return normalized

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer; `layers` is `keras.layers`."""
        return layers.LayerNormalization(epsilon=self.epsilon, name=self.name)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph."""
        own = (arrays[f"{self.name}/{word}"] for word in ("gamma", "beta"))
        return graph.add("LayerNormalization", x, *own, axis=-1, epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class Embedding(LayerWithoutSection):
    """Replaces each of the integers 0, 1, … by a learned vector."""

    count: int  # number of vectors

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name."""
        return {f"{self.name}/embeddings": (self.count, self.output_shape[-1])}

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy; its input is not scaled."""
        table = arrays[f"{self.name}/embeddings"]
        return lambda x: table[x.astype(np.int32)]

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        """Return the equivalent Keras layer; `layers` is `keras.layers`."""
        return layers.Embedding(self.count, self.output_shape[-1], name=self.name)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph."""
        table = arrays[f"{self.name}/embeddings"]
        return graph.add("Gather", table, graph.cast(x, np.int64))


class CustomClasses:
    """A user's classes from outside Keras, by name.

    Another process imports them once it makes their model: their modules import Keras,
    which an env actor need not do if the learner's process acts for it.

    Args:
        classes: the classes by name; serialized, in another process.
        names: names of the classes if they are serialized.
    """

    def __init__(
        self, classes: Mapping[str, Any] | bytes, names: tuple[str, ...] = ()
    ) -> None:
        self._classes = classes
        self._names = names if isinstance(classes, bytes) else tuple(classes)

    def load(self) -> dict[str, Any]:
        """Return the classes by name."""
        if isinstance(self._classes, bytes):
            self._classes = cloudpickle.loads(self._classes)
        return dict(self._classes)  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        held = self._classes
        data = held if isinstance(held, bytes) else cloudpickle.dumps(held)
        return CustomClasses, (data, self._names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomClasses):
            return NotImplemented
        return self._names == other._names and self.load() == other.load()

    def __hash__(self) -> int:
        return hash(self._names)


@dataclass(frozen=True, kw_only=True)
class WholeModel(LayerWithoutSection):
    """A Keras model that NumPy can't compute; acting with it requires TensorFlow.

    Its output is the concatenation of the model's outputs, each without its softmax.
    """

    model: str  # name of the model, for messages
    config: str  # config of the model as the user gave it, JSON
    custom: CustomClasses  # classes from outside Keras
    weights: tuple[tuple[str, tuple[int, ...]], ...]  # names and shapes
    is_own: bool = False  # whether this run's code made it, so Lambda layers may run
    # Named parts of the network's inputs that the model reads, in its order; empty if
    # it reads the only array. They are `inputs.InputPart`.
    parts: tuple[Any, ...] = ()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name."""
        return dict(self.weights)

    @property
    def reads_inputs(self) -> bool:
        """Whether it reads named parts of the inputs."""
        return bool(self.parts)

    def parts_of(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the parts that the model reads of the network's input arrays."""
        return [part.of(inputs) for part in self.parts]

    @property
    def kinds(self) -> set[str]:
        """Return the class names of its layers."""
        return set(re.findall(r'"class_name": "(\w+)"', self.config))

    @property
    def flops(self) -> int:
        """Floating-point operations of a forward pass, if all are matrix products."""
        return 2 * sum(math.prod(shape) for _, shape in self.weights)

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the TensorFlow forward pass; its input is multiplied by `scale`."""
        check_complete(self.model)
        forward = resolve_name("xagents_ray.networks.keras_whole:forward_function")
        bound = functools.partial(forward(self), [arrays[n] for n, _ in self.weights])
        if self.parts:
            return lambda inputs: np.array(bound(self.parts_of(inputs)))
        return lambda x: np.array(bound(x.astype(np.float32) * np.float32(scale)))

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        return resolve_name("xagents_ray.networks.keras_whole:WholeLayer")(self)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Raise UserError, as only Keras can compute the model."""
        raise UserError(
            f"{self.model} has layers that only Keras knows: export it with "
            "to_keras() and Keras' own export."
        )


@dataclass(frozen=True, kw_only=True)
class OutputSlice(LayerWithoutSection):
    """A slice of a vector: one output of a whole model."""

    first: int  # index where the slice begins
    is_linear: bool  # whether the model's output has no activation

    def bounded(self) -> Layer:
        """Return the layer with a tanh if the model's output has no activation."""
        return replace(self, activation="tanh") if self.is_linear else self

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the slice in NumPy; its input is not scaled."""
        own = slice(self.first, self.first + self.output_shape[0])
        return lambda x: ACTIVATIONS[self.activation](x[:, own].copy())

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        end = self.first + self.output_shape[0]
        part = resolve_name("xagents_ray.networks.keras_whole:SlicedOutput")
        return part(self.first, end, self.activation, self.name)
