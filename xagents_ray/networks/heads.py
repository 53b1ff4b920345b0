"""Heads of action-value networks: dueling streams and distributions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any

import numpy as np

from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.activations import softmax
from xagents_ray.networks.keras_layers import LayerWithoutSection
from xagents_ray.networks.layers import Dense, Initializer, Step
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.onnx import OnnxGraph

_KERAS = "xagents_ray.networks.keras_heads:"


class WeightlessLayer(LayerWithoutSection):
    """A layer without weights."""


@dataclass(frozen=True, kw_only=True)
class Dueling(WeightlessLayer):
    """Adds values to advantages minus their mean over the actions.

    The input is float32 [n * atoms + atoms]: the advantages of n actions, then the
    values.

    Source: arXiv:1511.06581, eq. 9.
    """

    atoms: int  # numbers per action

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        end = self.output_shape[0]

        def dueling(x: Array) -> FloatArray:
            advantages = x[:, :end].reshape(len(x), -1, self.atoms)
            advantages = advantages - advantages.mean(axis=1, keepdims=True)
            y: FloatArray = (advantages + x[:, None, end:]).reshape(len(x), end)
            return y

        return dueling

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        return resolve_name(f"{_KERAS}KerasDueling")(self)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph."""
        end = self.output_shape[0]
        parts = graph.add("Reshape", x, np.array([0, -1, self.atoms]))
        count, axis = end // self.atoms, np.array([1])
        advantages = graph.add("Slice", parts, np.array([0]), np.array([count]), axis)
        last = np.array([count + 1])
        values = graph.add("Slice", parts, np.array([count]), last, axis)
        mean = graph.add("ReduceMean", advantages, axes=[1])
        y = graph.add("Add", graph.add("Sub", advantages, mean), values)
        return graph.add("Reshape", y, np.array([0, end]))


@dataclass(frozen=True, kw_only=True)
class Expectation(WeightlessLayer):
    """Returns the mean of each action's distribution, given its logits.

    Source: arXiv:1707.06887, section 4.
    """

    atoms: tuple[float, ...]  # returns, float32

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        support = np.array(self.atoms, np.float32)

        def expectation(x: Array) -> FloatArray:
            chances = softmax(x.reshape(len(x), -1, len(support)))
            return chances.dot(support)  # type: ignore[no-any-return]

        return expectation

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        return resolve_name(f"{_KERAS}KerasExpectation")(self)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph."""
        logits = graph.add("Reshape", x, np.array([0, -1, len(self.atoms)]))
        chances = graph.add("Softmax", logits, axis=-1)
        return graph.add("MatMul", chances, np.array(self.atoms, np.float32))


@dataclass(frozen=True, kw_only=True)
class Clip(WeightlessLayer):
    """Clips numbers to a range around 0."""

    largest: float  # largest magnitude of a number

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        return lambda x: np.clip(x, -self.largest, self.largest)

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        return resolve_name(f"{_KERAS}KerasClip")(self)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Add the forward pass to an ONNX graph."""
        return graph.add("Clip", x, np.float32(-self.largest), np.float32(self.largest))


@dataclass(frozen=True, kw_only=True)
class ScaledGradient(LayerWithoutSection):
    """Returns its input unchanged and scales its gradient."""

    factor: float

    def bind(self, arrays: Mapping[str, FloatArray], scale: float) -> Step:
        """Return the forward pass in NumPy, without scaling."""
        return lambda x: x

    def keras(self, layers: Any, initializer: Initializer) -> Any:
        return resolve_name(f"{_KERAS}KerasScaledGradient")(self)

    def onnx(self, graph: OnnxGraph, x: str, arrays: Mapping[str, FloatArray]) -> str:
        """Return its input; the graph needs no operation."""
        return x


def with_atoms(layout: Layout, atoms: int) -> Layout:
    """Return a network whose last layer has `atoms` logits for each of its units."""
    *others, last = layout.layers
    assert isinstance(last, Dense)
    resized = _resized(last, atoms * last.output_shape[0])
    return replace(layout, layers=(*others, resized))


def with_expectations(layout: Layout, support: FloatArray) -> Layout:
    """Return a network that outputs the distributions' means, then their logits.

    The support is float32 [atoms], the return that each atom stands for.
    """
    end = len(layout.layers)
    logits = layout.layers[-1].output_shape[0]
    means = Expectation(
        name="expectation",
        source=end - 1,
        output_shape=(logits // len(support),),
        atoms=tuple(support.tolist()),
    )
    return replace(
        layout, layers=(*layout.layers, means), outputs=(end, *layout.outputs)
    )


def with_clipped_output(layout: Layout, largest: float) -> Layout:
    """Return a network whose first output is clipped to magnitudes of `largest`."""
    first, *others = layout.outputs
    shape = layout.layers[first].output_shape
    clip = Clip(name="clip", source=first, output_shape=shape, largest=largest)
    outputs = (len(layout.layers), *others)
    return replace(layout, layers=(*layout.layers, clip), outputs=outputs)


def with_streams(layout: Layout, atoms: int) -> Layout:
    """Return a network that ends in two streams: advantages and values.

    Each stream has the last two layers if they are dense and a chain, else the last.
    The gradient into the shared layers before them is scaled by 1/√2.

    Source: arXiv:1511.06581, section 4.2.
    """
    dense = [
        isinstance(layer, Dense) and len(layer.output_shape) == 1
        for layer in layout.layers[-2:]
    ]
    begin = len(layout.layers) - 1
    if begin and all(dense) and layout.layers[begin].sources == (begin - 1,):
        begin -= 1
    layers, stream = list(layout.layers[:begin]), layout.layers[begin:]
    first, more = stream[0].source, stream[0].more_sources
    if any(layer.shapes for layer in layers):
        assert isinstance(stream[0], Dense)
        shape, factor = stream[0].kernel_shape[:-1], math.sqrt(0.5)
        name = "scaled-gradient"
        scaled = ScaledGradient(
            name=name, source=first, output_shape=shape, factor=factor
        )
        layers.append(replace(scaled, more_sources=more))
        first, more = len(layers) - 1, ()
    begins = len(layers), len(layers) + len(stream)
    for ending, units in (("", stream[-1].output_shape[0]), ("-value", atoms)):
        source, others = first, more
        for layer in stream:
            assert isinstance(layer, Dense)
            sized = _resized(layer, units) if layer is stream[-1] else layer
            name = layer.name + ending
            layers.append(replace(sized, name=name, source=source, more_sources=others))
            source, others = len(layers) - 1, ()
    layers.append(
        Dueling(
            name="dueling",
            source=begins[1] - 1,
            more_sources=(len(layers) - 1,),
            output_shape=stream[-1].output_shape,
            atoms=atoms,
        )
    )
    return replace(layout, layers=tuple(layers), outputs=(len(layers) - 1,))


def _resized(layer: Dense, units: int) -> Dense:
    """Return a dense layer with a different number of units."""
    shape = (*layer.kernel_shape[:-1], units)
    return replace(layer, output_shape=(units,), kernel_shape=shape)
